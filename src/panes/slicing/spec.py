"""What an operator is built from: a query with everything resolved, and nothing of any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from panes.aggregates.rows import in_any_order
from panes.errors import QueryError
from panes.slicing.identity import Identity
from panes.slicing.lane import Agg
from panes.slicing.outputs import QueryOutputs
from panes.units import TimeDomain
from panes.windows.base import ALWAYS, NEVER, Bound, LookBack, MachineWindow, Window
from panes.windows.codec import has_form, window_to_json
from panes.windows.normal_form import normal_form

MANUAL = "manual"
#: Why some windows can't be given before they close.
NOT_EARLY = (
    "early(): it must see rows in the order of their time, so nobody knows what it holds before the watermark has "
    "passed them; only windows on time and sessions are given before they close"
)
#: How results of windows are put together from slices.
STORES = ("auto", "lazy", "eager")


class RowExpressions(Protocol):
    """Row expressions compiled elsewhere: their types, and their values for a batch."""

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    @property
    def columns(self) -> Mapping[str, str] | None:
        """The column that each of them is; None: some are more than a column."""

    def including(self, texts: Iterable[str]) -> RowExpressions: ...

    def evaluate(self, table: pa.Table) -> Mapping[str, pa.ChunkedArray]: ...


@dataclass(frozen=True)
class Early:
    """When windows are given that have not closed: whenever the watermark passes a multiple of `every` ticks, at the
    end of every micro-batch, or when somebody asks."""

    every: int | None = None
    by_batch: bool = False
    clock: int | None = None  # microseconds, for whoever runs it

    def passed(self, before: int, watermark: int) -> bool:
        """Whether the watermark, which was `before`, has passed a multiple; its beginning is none."""
        return self.every is not None and before > ALWAYS and before // self.every < watermark // self.every

    def next_after(self, watermark: int) -> int:
        """The first watermark at which windows are given early; NEVER: none by itself."""
        if self.every is None:
            return NEVER
        return ALWAYS if watermark == ALWAYS else (watermark // self.every + 1) * self.every


@contextmanager
def said_of_window(label: str) -> Iterator[None]:
    """What is wrong with a window names it."""
    try:
        yield
    except QueryError as error:
        raise type(error)(f"window {label!r}: {error}") from error


def bind_window(label: str, window: Window, domain: TimeDomain, lateness: int | None) -> Bound:
    """A window in ticks, of a query or added to one, if a stream with this lateness can have it."""
    if not isinstance(window, Window):
        raise QueryError(f"the window {label!r} must be a window such as pn.tumbling('1 min'); got {window!r}")
    with said_of_window(label):
        found = window.labelled(label, domain)
    if lateness is not None and isinstance(found, MachineWindow | LookBack) and found.no_lateness:
        raise QueryError(f"window {label!r}: the stream has lateness=, but {found.no_lateness}; leave it out")
    return found


@dataclass(frozen=True)
class OperatorSpec:
    """A query, resolved. Times and sizes are ticks of `domain`."""

    schema: pa.Schema  # of the rows that the windows see
    time: str
    domain: TimeDomain
    aggs: tuple[Agg, ...]
    windows: tuple[tuple[str, Window], ...]
    in_ticks: tuple[tuple[str, Bound], ...]  # the same windows, in ticks of `domain`
    expressions: RowExpressions
    read: Callable[[Any], pa.Table]  # any batch a user pushes -> a table of `schema`
    reads_as_is: bool = False  # `read` gives tables of `schema` back as they are
    keys: tuple[str, ...] = ()
    watermark: int | str | None = None  # bound in ticks, MANUAL, or None: declared in order
    lateness: int | None = None
    emit_empty: bool = False
    #: windows are also given before they close; None: they are not
    early: Early | None = None
    keep_late: int | None = None  # so many rows that no result uses are held; None: all, for those who take them
    store: str = "auto"
    #: aggregates to result columns (expressions over aggregates); None: they are the result columns
    finalize: Callable[[pa.Table], pa.Table] | None = None
    #: single rows may be worked on later, together: what can be wrong with one is seen when it comes
    rows_can_wait: bool = True
    #: facts that tell one query from another, for snapshots; without its windows
    identity: Mapping[str, Any] = field(default_factory=dict)
    #: how results are told apart, given the windows of now and whether they have positions; raises if they can't be
    told_apart: Callable[[Mapping[str, Bound], bool], Identity] | None = None
    #: the column that says whether a result is withdrawn, as `finalize` leaves it; None: there is none
    void: str | None = None
    #: what users call the results, to show; none: as the aggregates are called
    outputs: tuple[str, ...] = ()
    #: what windows give that have nothing of their own, as `aggs` and `finalize` say it; None: nobody asks
    shared: QueryOutputs | None = None
    #: by label, what windows give that have outputs of their own
    own: Mapping[str, QueryOutputs] = field(default_factory=dict)
    #: outputs as users write them, for a window with this label; None: none can be added
    outputs_for: Callable[[str, Mapping[str, Any]], QueryOutputs] | None = None
    #: what is done to results after `finalize`, which does it too; for windows that don't all give the same
    steps: Callable[[pa.Table], pa.Table] | None = None
    #: what the label of a window is called in results; None: it is not in them
    label: str | None = "window"
    #: results have the columns that they have whatever windows give, since a step says which
    selects: bool = False

    def __post_init__(self) -> None:
        if self.store not in STORES:
            raise QueryError(f"store={self.store!r} must be one of {', '.join(map(repr, STORES))}")

    @cached_property
    def bound_windows(self) -> dict[str, Bound]:
        """The windows in ticks of the domain and their normal form, by label: once for all operators of this query."""
        return {label: normal_form(window) for label, window in self.in_ticks}

    @cached_property
    def aggs_in_any_order(self) -> tuple[Agg, ...]:
        """The aggregates for windows that take rows in any order."""
        return self.taken_in_any_order(self.aggs)

    def taken_in_any_order(self, aggs: tuple[Agg, ...]) -> tuple[Agg, ...]:
        """Aggregates as windows have them that take rows in any order."""
        types = self.expressions.including(text for a in aggs for text in a.inputs).types
        return tuple(replace(a, bound=in_any_order(a.bound, tuple([types[text] for text in a.inputs]))) for a in aggs)

    def with_row_count(self, aggs: tuple[Agg, ...]) -> tuple[Agg, ...]:
        """Aggregates as lanes keep them: early results need the number of rows, too, after these."""
        return aggs if self.early is None else (*aggs, self.aggs[-1])

    @cached_property
    def written_windows(self) -> dict[str, dict[str, Any]]:
        """The windows as snapshots write them, by label; without those that only their declaration can say."""
        return {label: window_to_json(window) for label, window in self.windows if has_form(window)}

    @cached_property
    def whole_identity(self) -> dict[str, Any]:
        """What makes a query this query: windows as declared (those added later are state), and all else."""
        own = {"outputs": {label: dict(each.computed) for label, each in self.own.items()}} if self.own else {}
        return {**self.identity, "windows": {label: repr(window) for label, window in self.windows}, **own}

    @cached_property
    def user_code(self) -> bool:
        """Whether there is state that only users' own Python code understands."""
        every = (*self.aggs, *(a for each in self.own.values() for a in each.aggs))
        own_cells = any(f.python for a in every for f in a.bound.fields)
        return own_cells or not all(has_form(window) for _, window in self.windows)

    @property
    def in_order(self) -> bool:
        return self.watermark is None

    @property
    def bound(self) -> int:
        """How far the watermark stays behind the largest time seen."""
        return self.watermark if isinstance(self.watermark, int) else 0
