"""What the generator knows of a stream or subquery: enough to make only valid statements of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from panes.cql.tree import Select

#: types as declared -> kind of value
KINDS = {
    "byte": "int", "short": "int", "int": "int", "long": "int", "float": "float", "double": "float",
    "string": "str", "boolean": "bool", "datetime": "time",
}  # fmt: skip


#: names that a select with windows means its own by
OF_WINDOWS = ("window", "window_start", "window_end")


@dataclass(frozen=True)
class Col:
    name: str
    kind: str  # int, float, str, bool, time
    #: never null and never less than in the row before
    steady: bool = False
    type: str = ""


@dataclass(frozen=True)
class Offer:
    """Columns, which of them is known to be the time, and whether the order of rows is certain."""

    columns: tuple[Col, ...]
    time: str | None = None
    ordered: bool = True
    #: read from data, not from another query
    base: bool = False
    #: of how many streams' rows it may have all combinations: joins of joins soon have more than an oracle can list
    factors: int = 1
    #: other names of the time
    also: tuple[str, ...] = ()

    def of(self, *kinds: str) -> list[Col]:
        return [c for c in self.columns if c.kind in kinds]

    def column(self, name: str) -> Col:
        return next(c for c in self.columns if c.name.lower() == name.lower())

    @property
    def can_be_time(self) -> list[Col]:
        """Columns that windows may run on, where nothing is known yet; late rows need an order that is certain."""
        return [c for c in self.of("int", "time") if c.steady or self.ordered]

    def named(self, names: list[str]) -> Offer:
        """The same with other names, by position."""
        made = tuple(replace(c, name=n) for c, n in zip(self.columns, names, strict=True))
        time = next((n for c, n in zip(self.columns, names, strict=True) if c.name == self.time), None)
        also = tuple(n for c, n in zip(self.columns, names, strict=True) if c.name in self.also)
        return replace(self, columns=made, time=time, also=also)


@dataclass(frozen=True)
class Made:
    """A select and what it offers to those who read it; `steps`: the clock may tell its rows apart."""

    select: Select
    offer: Offer
    steps: bool = False
