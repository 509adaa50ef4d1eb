"""Types of CQL: the ten names of the language and every SQL type that a schema knows, and what converts.

In: a type's name as written, or the Arrow type of a computed column. Out: a `Type`. Where a query fills a
declared stream, `conversion` is the expression that turns one type into another, if that goes without saying.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from panes.errors import QueryError
from panes.plan.types import arrow_type

#: The types of the language, by the name it prints, as Arrow holds them.
NAMED = {
    "String": pa.string(),
    "Boolean": pa.bool_(),
    "Char": pa.string(),
    "Byte": pa.int8(),
    "Short": pa.int16(),
    "Int": pa.int32(),
    "Long": pa.int64(),
    "Float": pa.float32(),
    "Double": pa.float64(),
    "Datetime": pa.timestamp("us"),
}
_BY_LOWER = {name.lower(): name for name in NAMED}
_BY_ARROW = {kind: name for name, kind in NAMED.items() if name != "Char"}

#: From small to large: each converts to those after it.
_NUMBERS = ("Byte", "Short", "Int", "Long", "Float", "Double")
#: How casts name the types; where a name is missing there, it is never cast to.
_SQL_NAMES = {"Byte": "TINYINT", "Short": "SMALLINT", "Int": "INT", "Long": "BIGINT", "Float": "FLOAT"}


@dataclass(frozen=True)
class Type:
    """A type as users see it (`Int`, `Decimal(10, 2)`), and the Arrow type that columns of it have."""

    name: str
    arrow: pa.DataType

    def __str__(self) -> str:
        return self.name


CHAR = Type("Char", pa.string())


def type_named(written: str) -> Type | None:
    """The type that a name in a schema means, if it is one."""
    found = _BY_LOWER.get(written.strip().lower())
    if found is not None:
        return Type(found, NAMED[found])
    try:
        return type_of(arrow_type(written, column=written))
    except QueryError:
        return None


def type_of(kind: pa.DataType) -> Type:
    """The type of a column that Arrow calls `kind`.

    >>> type_of(pa.list_(pa.int64())).name
    'Array<Long>'
    """
    if kind in _BY_ARROW:
        return Type(_BY_ARROW[kind], kind)
    if pa.types.is_decimal(kind):
        return Type(f"Decimal({kind.precision}, {kind.scale})", kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Type(f"Array<{type_of(kind.value_type)}>", kind)
    if pa.types.is_map(kind):
        return Type(f"Map<{type_of(kind.key_type)}, {type_of(kind.item_type)}>", kind)
    if pa.types.is_struct(kind):
        return Type(f"Struct<{', '.join(f'{field.name}: {type_of(field.type)}' for field in kind)}>", kind)
    if pa.types.is_interval(kind):
        return Type("Interval", kind)
    names = {pa.date32(): "Date", pa.binary(): "Binary", pa.timestamp("us", tz="UTC"): "Timestamp_ltz"}
    return Type(names.get(kind, str(kind)), kind)


def converts(given: Type, wanted: Type) -> bool:
    """Whether a value becomes one of another type without being asked to (SPEC Q-01, X-22)."""
    if given == wanted or pa.types.is_null(given.arrow):
        return True
    if given.name == "Char":
        return wanted.name in _NUMBERS
    if wanted.name == "Char":
        return False
    if given.arrow == wanted.arrow:
        return True
    if given.name in _NUMBERS and wanted.name in _NUMBERS:
        return _NUMBERS.index(given.name) <= _NUMBERS.index(wanted.name)
    whole, fraction = pa.types.is_integer(given.arrow), pa.types.is_decimal(given.arrow)
    if pa.types.is_decimal(wanted.arrow):
        return whole or (fraction and _digits_fit(given.arrow, wanted.arrow))
    if fraction:
        return wanted.name == "Double"
    if pa.types.is_timestamp(wanted.arrow):
        return bool(pa.types.is_timestamp(given.arrow) or pa.types.is_date(given.arrow))
    return False


def _digits_fit(given: pa.Decimal128Type, wanted: pa.Decimal128Type) -> bool:
    return bool(given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale)


def conversion(tree: exp.Expr, given: Type, wanted: Type) -> exp.Expr:
    """The expression with the type that a declared column has; `converts` must have said yes."""
    if given.arrow == wanted.arrow and "Char" not in (given.name, wanted.name):
        return tree
    if given.name == "Char" and wanted.name in _NUMBERS:
        # the code of the character; one that a Byte can't hold is an error when it comes
        tree = exp.Ascii(this=tree)
    return exp.Cast(this=tree, to=exp.DataType.build(_sql_name(wanted), dialect="spark"))


def _sql_name(wanted: Type) -> str:
    """The name of a type in expressions: `CAST(x AS BIGINT)`."""
    if wanted.name in _SQL_NAMES:
        return _SQL_NAMES[wanted.name]
    if pa.types.is_timestamp(wanted.arrow):
        return "TIMESTAMP" if wanted.arrow.tz else "TIMESTAMP_NTZ"
    return wanted.name.upper()
