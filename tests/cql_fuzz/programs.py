"""A random program: data by name, statements, and what is asked. Equal seeds give equal programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: a column as declared: name and type in lower case
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Data:
    """Rows that the program gives under a name."""

    columns: Columns
    rows: tuple[tuple[Any, ...], ...]
    #: as tuples without names, which a CREATE STREAM must name; else as an Arrow table
    tuples: bool = False


@dataclass(frozen=True)
class Program:
    seed: int
    data: dict[str, Data]
    #: values of panes.cql.tree with terms for expressions
    statements: tuple[Any, ...]
    #: the number of a statement -> when the rows it reads arrive, in microseconds; else all at once
    clocks: dict[int, tuple[int, ...]]
