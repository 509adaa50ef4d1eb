"""Columns to the type the stream declares, only where no value changes its meaning."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from panes.errors import DataError

_ZONE = r":\d\d.*(Z|z|[+-]\d\d(:?\d\d)?)$"


def cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """`column` as `field` says, or DataError naming the column, both types and the reason."""
    given, wanted = column.type, field.type
    if given.equals(wanted):
        return column
    if pa.types.is_dictionary(given):
        return cast_column(pc.cast(column, given.value_type), field)
    if not _castable(given, wanted):
        raise DataError(f"column {field.name!r} must be {wanted}, and {given} can't be turned into it without guessing")
    try:
        if _is_text(given) and pa.types.is_timestamp(wanted):
            return _parse_times(column, wanted)
        return pc.cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"column {field.name!r} must be {wanted}, but came as {given}: {reason}") from error


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if t.is_null(given):
        return True
    if t.is_null(wanted):
        return False
    if _is_number(given):
        return _is_number(wanted)
    if t.is_timestamp(given) or t.is_date(given):
        return t.is_timestamp(wanted) or (t.is_date(given) and t.is_date(wanted))
    if _is_text(given):
        return _is_text(wanted) or t.is_timestamp(wanted) or t.is_date(wanted)
    if _is_binary(given):
        return _is_binary(wanted)
    if t.is_nested(given) and t.is_nested(wanted):
        return given.id == wanted.id or (_is_list(given) and _is_list(wanted))
    return bool(given.id == wanted.id)


def _is_number(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def _is_binary(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind) or kind == pa.binary_view()
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _parse_times(column: pa.ChunkedArray, wanted: pa.TimestampType) -> pa.ChunkedArray:
    """ISO 8601 text to timestamps; text with a zone is an instant, text without one is UTC."""
    column = pc.utf8_trim_whitespace(pc.cast(column, pa.string()))
    zoned = pc.match_substring_regex(column, _ZONE)
    nothing = pa.scalar(None, pa.string())
    instants = pc.cast(pc.if_else(zoned, column, nothing), pa.timestamp(wanted.unit, tz="UTC"))
    others = pc.cast(pc.if_else(zoned, nothing, column), pa.timestamp(wanted.unit))
    parsed = pc.coalesce(instants, pc.cast(others, instants.type))
    return pc.cast(parsed, wanted)
