"""Formats of times as Spark has them ("yyyy-MM-dd HH:mm:ss"), as SQL for DuckDB that writes and reads such text.

Only letters that both engines can do alike; others are refused by name.
"""

from __future__ import annotations

import re
from functools import lru_cache

from panes.errors import ExpressionError

#: letter and count -> the code of strftime
_WRITTEN = {
    "yyyy": "%Y", "yy": "%y", "M": "%-m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "d": "%-d", "dd": "%d",
    "D": "%-j", "DDD": "%j", "H": "%-H", "HH": "%H", "h": "%-I", "hh": "%I", "m": "%-M", "mm": "%M", "s": "%-S",
    "ss": "%S", "a": "%p", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A",
}  # fmt: skip
_MONTHS = ("january february march april may june july august september october november december").split()
#: letter and count -> what it reads
_READ = {
    "yyyy": r"\d{4}", "yy": r"\d{2}", "M": r"\d{1,2}", "MM": r"\d{2}", "MMM": "|".join(m[:3] for m in _MONTHS),
    "MMMM": "|".join(_MONTHS), "d": r"\d{1,2}", "dd": r"\d{2}", "H": r"\d{1,2}", "HH": r"\d{2}", "h": r"\d{1,2}",
    "hh": r"\d{2}", "m": r"\d{1,2}", "mm": r"\d{2}", "s": r"\d{1,2}", "ss": r"\d{2}", "a": "am|pm",
}  # fmt: skip
_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_FRACTION = 9


@lru_cache(maxsize=256)
def parts(text: str) -> tuple[tuple[str, str], ...]:
    """A format as ("letters", "yyyy") and ("text", "-"); ExpressionError names what can't be used."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        match = _PART.match(text, place)
        if match is None:
            raise ExpressionError(f"the time format {text!r} has a quote that is not closed")
        whole = match[0]
        if match[2]:
            found.append(("letters", whole))
        elif whole.startswith("'"):
            found.append(("text", match[1].replace("''", "'") or "'"))
        elif whole in "[]{}#":
            raise ExpressionError(f"the time format {text!r} has {whole!r}, which is not supported here; quote it")
        else:
            found.append(("text", whole))
        place = match.end()
    return tuple(found)


def written(text: str, time: str) -> str:
    """SQL of the time (SQL, too) as text in the format."""
    pieces: list[str] = []
    for kind, part in parts(text):
        if kind == "text":
            code = f"'{_quoted(part)}'"
        elif set(part) == {"S"} and len(part) <= _FRACTION:
            code = f"left(strftime({time}, '%f') || '000', {len(part)})"
        else:
            code = f"strftime({time}, '{_known(text, part, _WRITTEN)}')"
        pieces.append(code)
    return f"CASE WHEN {time} IS NOT NULL THEN {' || '.join(pieces) or repr('')} END"


def read(text: str, value: str) -> tuple[str, str]:
    """SQL of a condition that text (SQL, too) has the format, and of the timestamp that it then is."""
    pattern = ""
    fields: dict[str, tuple[int, str]] = {}  # by letter: the number of the group, and all its letters
    for kind, part in parts(text):
        if kind == "text":
            pattern += re.escape(part)
            continue
        fraction = set(part) == {"S"} and len(part) <= _FRACTION
        name = part[0]
        if name in fields:
            raise ExpressionError(f"the time format {text!r} has {name!r} twice")
        digits = rf"\d{{1,{len(part)}}}"
        pattern += f"({digits if fraction else _known(text, part, _READ, 'read')})"
        fields[name] = (len(fields) + 1, part)
    if ("h" in fields) != ("a" in fields):
        raise ExpressionError(f"the time format {text!r} must have both 'h' and 'a', or 'H'")
    regex = _quoted(f"(?i){pattern}")

    def field(name: str, default: int) -> str:
        if name not in fields:
            return str(default)
        return f"CAST({group(name)} AS BIGINT)"

    def group(name: str) -> str:
        return f"regexp_extract({value}, '{regex}', {fields[name][0]})"

    year = f"(2000 + {field('y', 0)})" if fields.get("y", (0, ""))[1] == "yy" else field("y", 1970)
    month = field("M", 1)
    if fields.get("M", (0, ""))[1] in ("MMM", "MMMM"):
        names = ", ".join(f"'{m[:3]}'" for m in _MONTHS)
        month = f"list_position([{names}], left(lower({group('M')}), 3))"
    hour = field("H", 0)
    if "h" in fields:
        noon = f"CASE WHEN lower({group('a')}) = 'pm' THEN 12 ELSE 0 END"
        clock = field("h", 0)
        hour = f"(CASE WHEN {clock} BETWEEN 1 AND 12 THEN {clock} % 12 ELSE 99 END + {noon})"
    day = f"make_timestamp({year}, {month}, {field('d', 1)}, {hour}, {field('m', 0)}, CAST({field('s', 0)} AS DOUBLE))"
    if "S" in fields:
        day = f"({day} + to_microseconds(CAST(left(rpad({group('S')}, 9, '0'), 6) AS BIGINT)))"
    return f"regexp_full_match({value}, '{regex}')", day


def _known(text: str, part: str, known: dict[str, str], what: str = "written") -> str:
    if part not in known:
        there = ", ".join(sorted({*known, "S"}, key=lambda letters: (letters.lower(), letters)))
        raise ExpressionError(f"the time format {text!r} has {part!r}, which can't be {what} here; there are: {there}")
    return known[part]


def _quoted(text: str) -> str:
    return text.replace("'", "''")
