"""Errors of the layers below in the user's words: the names and types that are in the text of a query."""

from __future__ import annotations

import re
from collections.abc import Iterable

from panes.plan.names import inside

_NO_MATCH = re.compile(
    r"No function matches the given name and argument types '(?P<name>.+?)\((?P<types>.*)\)'\. You might need to add "
    r"explicit type casts\."
)
#: what DuckDB calls columns inside (`panes.plan.compiled.column_id`), in its messages
_QUOTED = re.compile(r'expression "c_(?P<name>.+?)"')
#: DuckDB's names of types that have another here
_TYPES = {
    "TINYINT": "Byte", "SMALLINT": "Short", "INTEGER": "Int", "BIGINT": "Long", "FLOAT": "Float", "DOUBLE": "Double",
    "VARCHAR": "String", "BOOLEAN": "Boolean", "TIMESTAMP": "Datetime", "DATE": "Date", "BLOB": "Binary",
    "STRING_LITERAL": "String", "INTEGER_LITERAL": "Int", '"NULL"': "null",
}  # fmt: skip


def spoken(message: str, columns: Iterable[tuple[str, str]]) -> str:
    """A message with columns named as users do; `columns`: the aliases and names of those of a join."""
    message = _QUOTED.sub(r"\g<name>", message)
    for alias, name in columns:
        shown = f"{alias}.{name}".replace("\\", "\\\\")
        message = re.sub(rf"(?<!\w){re.escape(inside(alias, name))}(?!\w)", shown, message)
    return _NO_MATCH.sub(_without_match, message)


def _without_match(found: re.Match[str]) -> str:
    types = [_TYPES.get(name, name) for name in re.split(r",\s*(?![^()]*\))", found["types"]) if name]
    kind = "operator" if not found["name"][0].isalpha() else "function"
    given = " and ".join(types) or "nothing"
    return f"there is no {kind} {found['name']} for {given}; CAST(... AS ...) changes a type"
