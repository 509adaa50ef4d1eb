"""What all built-in aggregate specs share: argument texts, a readable form, and argument checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import ClassVar

import pyarrow as pa

from panes.aggregates.base import Aggregate, Laws
from panes.errors import QueryError

#: What aggregates promise for which a value that comes again changes nothing.
IDEMPOTENT = Laws(idempotent=True)


@dataclass(frozen=True, repr=False)
class Spec(Aggregate):
    """A built-in aggregate over SQL expressions. Options are further dataclass fields of subclasses."""

    name: ClassVar[str]
    promises: ClassVar[Laws] = Laws()

    inputs: tuple[str, ...]

    def __post_init__(self) -> None:
        for text in self.inputs:
            if not isinstance(text, str) or not text.strip():
                raise QueryError(
                    f"{self.name}: argument {text!r} is not an expression; "
                    f"write SQL text over the columns of a row, such as {self.name}('price * qty')"
                )

    @property
    def laws(self) -> Laws:
        return self.promises

    def __repr__(self) -> str:
        shown = list(self.inputs) or ["*"]
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if option.default is MISSING or value != option.default:
                shown.append(f"{option.name}={value!r}")
        return f"{self.name}({', '.join(shown)})"

    def argument_types(self, types: Sequence[pa.DataType]) -> list[pa.DataType]:
        """The types of the arguments, checked for their number."""
        if len(types) != len(self.inputs):
            raise QueryError(f"{self!r} has {len(self.inputs)} arguments, but {len(types)} types were given")
        return list(types)
