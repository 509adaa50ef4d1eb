"""Columns to the type the stream declares, only where no value changes its meaning."""

from __future__ import annotations

from typing import Any

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
        found = pc.cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DataError(f"column {field.name!r} must be {wanted}, but came as {given}: {reason}") from error
    odd = _changed(column, found)
    if odd is not None:
        raise DataError(f"column {field.name!r} must be {wanted}, but came as {given}: it can't hold {odd}")
    return found


def _changed(given: pa.ChunkedArray, found: pa.ChunkedArray) -> Any:
    """A number that Arrow's cast has made infinite or rounded away, where only whole numbers are checked; or None."""
    t, kind = pa.types, found.type
    if given.type.equals(kind):
        return None
    if t.is_floating(given.type) and t.is_float32(kind):
        wrong = pc.and_(pc.is_inf(found), pc.invert(pc.is_inf(given)))
    elif t.is_floating(given.type) and t.is_decimal(kind):
        wrong = pc.not_equal(pc.cast(found, given.type, safe=False), given)
    elif _is_list(kind) and _is_list(given.type):
        return _changed(pc.list_flatten(given), pc.list_flatten(found))
    elif t.is_struct(kind):
        names = [name for name in kind.names if name in given.type.names]
        parts = ((pc.struct_field(given, name), pc.struct_field(found, name)) for name in names)
        return next((odd for one, other in parts if (odd := _changed(one, other)) is not None), None)
    else:
        return None
    place = pc.index(wrong, pa.scalar(True)).as_py()
    return None if place < 0 else given[place].as_py()


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
    if _is_list(given) and _is_list(wanted):
        return _castable(given.value_type, wanted.value_type)
    if t.is_struct(given) and t.is_struct(wanted):
        return all(_castable(given.field(f.name).type, f.type) for f in wanted if f.name in given.names)
    if t.is_map(given) and t.is_map(wanted):
        return _castable(given.key_type, wanted.key_type) and _castable(given.item_type, wanted.item_type)
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
