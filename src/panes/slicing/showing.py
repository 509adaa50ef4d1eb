"""Tables as people see them: aligned text for terminals, HTML for notebooks; long and wide ones are cut.

In: an Arrow table. Out: text. Everything that comes from data is escaped in HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

import pyarrow as pa

#: Up to so many rows are shown whole; of more, the first and the last.
_WHOLE, _FIRST, _LAST = 20, 10, 5
_WIDTH, _CELL = 120, 40
_GAP = "  "
#: The fraction of a second in a time that is none.
_NO_FRACTION = re.compile(r"\.0+(?=$|Z|[+-])")


def text_table(table: pa.Table) -> str:
    """The table with a line of names above and the number of rows below; columns that don't fit are named."""
    rows, cut_at = _cells(table)
    columns = list(zip(map(_one_line, table.column_names), *rows))
    numeric = [_is_number(f.type) for f in table.schema]
    lines = [""] * (1 + len(rows))
    shown = 0
    for column, right in zip(columns, numeric):
        width = max(map(len, column))
        if shown and len(lines[0]) + len(_GAP) + width > _WIDTH:
            break
        padded = [cell.rjust(width) if right else cell.ljust(width) for cell in column]
        lines = [line + _GAP * bool(shown) + cell for line, cell in zip(lines, padded)]
        shown += 1
    lines = [line.rstrip() for line in lines]
    if cut_at is not None:
        lines.insert(1 + cut_at, "...")
    return "\n".join([*lines, _rows(table.num_rows) + _left_out(table.column_names[shown:])])


def html_table(table: pa.Table) -> str:
    """The same as HTML, with all columns."""
    rows, cut_at = _cells(table)
    body = [list(row) for row in rows]
    if cut_at is not None:
        body.insert(cut_at, ["..."] * table.num_columns)
    right = [_is_number(f.type) for f in table.schema]
    return html_rows(table.column_names, body, right) + f"<p>{_rows(table.num_rows)}</p>"


def html_rows(names: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """A table of text as HTML; columns that are `right` are aligned so."""
    style = [' style="text-align: right"' if r else "" for r in right] or [""] * len(names)
    head = "".join(f"<th{s}>{escape(name)}</th>" for name, s in zip(names, style))
    lines = ["".join(f"<td{s}>{escape(cell)}</td>" for cell, s in zip(row, style)) for row in rows]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def _left_out(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f", and {len(names)} more column{'s' * (len(names) > 1)}: {', '.join(map(_one_line, names))}"


def _cells(table: pa.Table) -> tuple[list[tuple[str, ...]], int | None]:
    """The rows to show, as text, and before which of them some are left out."""
    n = table.num_rows
    cut_at = None
    if n > _WHOLE:
        table, cut_at = pa.concat_tables([table.slice(0, _FIRST), table.slice(n - _LAST)]), _FIRST
    return list(zip(*(_texts(column) for column in table.columns))), cut_at


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):  # Python has no nanoseconds
        texts = column.cast(pa.string()).to_pylist()
        whole = all(t is None or _NO_FRACTION.search(t) for t in texts)
        return [_text(t if t is None or not whole else _NO_FRACTION.sub("", t)) for t in texts]
    return [_text(value) for value in column.to_pylist()]


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.10g}"
    return _one_line(str(value))


def _one_line(text: str) -> str:
    """Text in which every character shows, cut where it is long."""
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: _CELL + 1])
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
