"""Aggregates written by users in Python: one value at a time, or vectorised over segments.

Subclass `UserAggregate`, or pass functions to `aggregate`. The laws you declare are relied upon: partials
are combined in any grouping, and in any order if you declare `commutative`. `panes.testing.check_laws` tries
to refute them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from panes.aggregates.base import Aggregate, Array, BoundAggregate, Laws
from panes.aggregates.types import arrow_type
from panes.errors import QueryError


class UserAggregate(Aggregate):
    """Subclass this for an aggregate of your own.

    `lift` makes a partial of one row, `combine` joins two partials (the earlier first), `lower` makes the
    result. Partials may be any Python object that can be pickled. `combine`, `invert` and `lower` may change the
    partials that they are given, as in `a.extend(b)`: those that can be changed are copies.

    >>> import panes as pn
    >>> class Vwap(pn.UserAggregate):
    ...     commutative = True
    ...     def lift(self, price, qty):
    ...         return price * qty, qty
    ...     def combine(self, a, b):
    ...         return a[0] + b[0], a[1] + b[1]
    ...     def lower(self, a):
    ...         return a[0] / a[1]
    >>> from panes.testing import evaluate
    >>> evaluate(Vwap("price", "qty"), [10.0, 20.0], [3, 1])
    12.5

    Two vectorised forms are open. `lift_segments(columns, offsets)` and `fold_segments(partials, offsets)`
    return one partial per segment, and replace `lift` and `combine` for speed. With `state`, a mapping of
    names to types, partials are numeric columns instead of objects: `lift_segments` and `fold_segments` then
    take and return tuples of arrays, and `lower_segments` makes results of them. Partials may be changed there, too;
    `columns` can only be read.
    """

    associative: ClassVar[bool] = True
    commutative: ClassVar[bool] = False
    invertible: ClassVar[bool] = False
    holistic: ClassVar[bool] = False
    #: The type of the result: an Arrow type, or its name.
    returns: ClassVar[str | pa.DataType] = "double"
    #: Leave out rows in which an argument is null, as SQL does. Otherwise nulls arrive as None.
    skip_nulls: ClassVar[bool] = True
    #: Names and types of numeric partials, for the vectorised form; None: partials are Python objects.
    state: ClassVar[Mapping[str, str | pa.DataType] | None] = None

    def __init__(self, *inputs: str) -> None:
        for text in inputs:
            if not isinstance(text, str) or not text.strip():
                raise QueryError(f"{type(self).__name__}: argument {text!r} is not an expression; write SQL text")
        self.inputs = inputs

    def lift(self, *values: Any) -> Any:
        """The partial of one row, from the values of its arguments."""
        raise NotImplementedError

    def combine(self, a: Any, b: Any) -> Any:
        """The partial of the rows of a followed by those of b."""
        raise NotImplementedError

    def lower(self, a: Any) -> Any:
        """The result of a partial; None is null."""
        raise NotImplementedError

    def invert(self, a: Any, b: Any) -> Any:
        """The partial a without the rows of b, which it holds."""
        raise NotImplementedError

    def identity(self) -> Any:
        """The partial of no rows. Without it, the result over no rows is null."""
        raise NotImplementedError

    def lift_segments(self, columns: tuple[Array, ...], offsets: Array) -> Any:
        """Partials of all segments at once."""
        raise NotImplementedError

    def fold_segments(self, partials: Any, offsets: Array) -> Any:
        """Partials combined left to right, segment by segment."""
        raise NotImplementedError

    def lower_segments(self, partials: tuple[Array, ...]) -> Any:
        """Results of numeric partials: an array, an Arrow array, or (values, valid)."""
        raise NotImplementedError

    def invert_segments(self, a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        """Elementwise a without b, for numeric partials."""
        raise NotImplementedError

    @property
    def laws(self) -> Laws:
        return Laws(self.associative, self.commutative, self.invertible, self.holistic)

    def has(self, method: str) -> bool:
        """Whether this aggregate defines an optional method."""
        return getattr(type(self), method) is not getattr(UserAggregate, method)

    def bind(self, types: Sequence[pa.DataType]) -> BoundAggregate:
        from panes.aggregates.user_bound import BoundColumns, BoundObjects

        self._check(types)
        if self.state is None:
            return BoundObjects(self, arrow_type(self.returns))
        return BoundColumns(self, list(types), arrow_type(self.returns))

    def _check(self, types: Sequence[pa.DataType]) -> None:
        name = type(self).__name__
        if len(types) != len(self.inputs):
            raise QueryError(f"{self!r} has {len(self.inputs)} arguments, but {len(types)} types were given")
        if not self.associative:
            raise QueryError(f"{name} is declared not associative; windows are assembled from slices, which needs it")
        if self.state is not None:
            needed = ["lift_segments", "fold_segments", "lower_segments"]
            needed += ["invert_segments"] if self.invertible else []
        else:
            needed = ["lower"]
            needed += ["invert"] if self.invertible else []
            needed += [] if self.has("lift_segments") else ["lift"]
            needed += [] if self.has("lift_segments") and self.has("fold_segments") else ["combine"]
        missing = [m for m in needed if not self.has(m)]
        if missing:
            raise QueryError(f"{name} must define {', '.join(missing)}, since its declarations say so")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.inputs)})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.inputs))


class FunctionAggregate(UserAggregate):
    """What `aggregate` returns: a user aggregate made of functions."""

    def __init__(
        self,
        inputs: tuple[str, ...],
        functions: dict[str, Callable[..., Any]],
        laws: Laws,
        returns: str | pa.DataType,
        skip_nulls: bool,
        name: str,
    ) -> None:
        super().__init__(*inputs)
        vars(self).update(functions)
        self._laws = laws
        self._name = name
        self.returns = returns  # type: ignore[misc]
        self.skip_nulls = skip_nulls  # type: ignore[misc]
        self.invertible = laws.invertible  # type: ignore[misc]

    def has(self, method: str) -> bool:
        return method in vars(self)

    @property
    def laws(self) -> Laws:
        return self._laws

    def __repr__(self) -> str:
        return f"{self._name}({', '.join(self.inputs)})"


def aggregate(
    *inputs: str,
    lift: Callable[..., Any],
    combine: Callable[[Any, Any], Any],
    lower: Callable[[Any], Any],
    identity: Callable[[], Any] | None = None,
    invert: Callable[[Any, Any], Any] | None = None,
    commutative: bool = False,
    holistic: bool = False,
    returns: str | pa.DataType = "double",
    skip_nulls: bool = True,
    name: str = "aggregate",
) -> FunctionAggregate:
    """An aggregate of your own, from functions; see `UserAggregate` for what each must do.

    `identity` is called without arguments. Giving `invert` declares the aggregate invertible.

    >>> import panes as pn
    >>> from panes.testing import evaluate
    >>> longest = pn.aggregate("word", lift=len, combine=max, lower=int, commutative=True, returns="bigint")
    >>> evaluate(longest, ["a", "pane", None])
    4
    """
    functions: dict[str, Callable[..., Any]] = {"lift": lift, "combine": combine, "lower": lower}
    for word, function in (("identity", identity), ("invert", invert)):
        if function is not None:
            functions[word] = function
    for word, function in functions.items():
        if not callable(function):
            raise QueryError(f"aggregate: {word} = {function!r} is not a function")
    laws = Laws(commutative=commutative, invertible=invert is not None, holistic=holistic)
    return FunctionAggregate(inputs, functions, laws, returns, skip_nulls, name)
