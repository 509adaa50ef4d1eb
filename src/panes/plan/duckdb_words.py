"""What DuckDB says of values that it can't compute with, in words that fit every language of ours.

Only values are spoken of here; where types don't fit, `refused` finds the piece and says it itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

#: what casts put before text that must not be read (`duckdb_macros`): no user wrote it
_MARKED = r"(?P<quote>['\"])\??(?P<value>.*)(?P=quote)"
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("INT8", "TINYINT"), "whole number of 8 bits"),
    **dict.fromkeys(("INT16", "SMALLINT"), "whole number of 16 bits"),
    **dict.fromkeys(("INT32", "INTEGER"), "whole number of 32 bits"),
    **dict.fromkeys(("INT64", "BIGINT"), "whole number of 64 bits"),
    **dict.fromkeys(("INT128", "HUGEINT"), "whole number of 128 bits"),
    **dict.fromkeys(("UINT8", "UTINYINT"), "whole number of 8 bits without a sign"),
    **dict.fromkeys(("UINT16", "USMALLINT"), "whole number of 16 bits without a sign"),
    **dict.fromkeys(("UINT32", "UINTEGER"), "whole number of 32 bits without a sign"),
    **dict.fromkeys(("UINT64", "UBIGINT"), "whole number of 64 bits without a sign"),
    "FLOAT": "number of 32 bits",
    "DOUBLE": "number of 64 bits",
    **dict.fromkeys(("BOOL", "BOOLEAN"), "true or false"),
    "VARCHAR": "text",
    "BLOB": "binary value",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_MS", "TIMESTAMP_S"), "time"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"), "time"),
    "INTERVAL": "interval",
}
_TYPE = r"(?P<type>(?:U?INT\d+|DECIMAL\(\d+, ?\d+\)|TIMESTAMP WITH TIME ZONE|[A-Z_]+\d*))"
_NUMBER = re.compile(r"\b(?:" + "|".join(sorted(_TYPES, key=len, reverse=True)) + r")\b(?!\()")
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def _called(kind: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        return f"decimal of {decimal[1]} digits, {decimal[2]} of them behind the point"
    nested = {"]": "list", "STRUCT(": "struct", "MAP(": "map"}
    for sign, word in nested.items():
        if kind.startswith(sign) or kind.endswith(sign):
            return word
    return _TYPES.get(kind, kind.lower())


def _a(kind: str) -> str:
    word = _called(kind)
    return word if word in ("text", "true or false") else f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _not_one(found: re.Match[str]) -> str:
    return f"{found['value']!r} is not {_a(found['type'].upper())}"


def _not_fitting(found: re.Match[str]) -> str:
    return f"{found['value']} does not fit into {_a(found['type'])}"


_CASTING = "(?:Failed to cast value: )?"
#: what DuckDB says, and what it means
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"{_CASTING}Could not convert string {_MARKED} to {_TYPE}", re.DOTALL), _not_one),
    (re.compile(rf"(?P<type>date|timestamp) field value out of range: {_MARKED}", re.DOTALL), _not_one),
    (re.compile(rf"invalid (?P<type>date|timestamp) field format: {_MARKED}", re.DOTALL), _not_one),
    (re.compile(rf"{_CASTING}Type .+? with value (?P<value>.+?) can't be cast .*? type {_TYPE}"), _not_fitting),
    (re.compile(rf"{_CASTING}Could not cast value (?P<value>\S+) (?:from \S+ )?to {_TYPE}"), _not_fitting),
    (re.compile(rf"Failed to cast decimal value (?P<value>\S+) to type {_TYPE}"), _not_fitting),
    (re.compile(rf"Overflow in \w+ of {_TYPE} \((?P<value>.+)\)!"), _not_fitting),
    (
        re.compile(r"Unimplemented type for cast \((?P<given>.+) -> (?P<type>.+)\)"),
        lambda found: f"{_a(found['given'])} can't be turned into {_a(found['type'])}",
    ),
    (re.compile(rf'Casting value "(?P<value>.*?)" to type {_TYPE} failed'), _not_fitting),
)


def is_about_types(error: Exception) -> bool:
    """Whether an error is about the types in an expression, and not about values."""
    import duckdb

    return isinstance(error, duckdb.BinderException | duckdb.CatalogException | duckdb.NotImplementedException)


def in_words(error: Exception) -> str:
    """What is wrong with values, without DuckDB's error class, its names of types and its advice.

    >>> in_words(ValueError("Conversion Error: Could not convert string '?x' to INT32 when casting from ..."))
    "'x' is not a whole number of 32 bits"
    """
    text = str(error).strip()
    head, _, rest = text.partition(": ")
    text = rest if head.endswith("Error") and rest else text
    text = text.split(" when casting from source column")[0].split("\n\nLINE ")[0]
    for pattern, said in _SENTENCES:
        found = pattern.match(text)
        if found:
            return said(found)
    return _NUMBER.sub(lambda word: _called(word[0]), text.splitlines()[0])
