"""Functions of our own for DuckDB: what Spark has and DuckDB has not, or means otherwise.

They are macros, written out wherever they are called; an argument that is used twice is found to be the same by DuckDB.
"""

from __future__ import annotations

import re
from functools import cache

#: What the names of all of them begin with, as functions are written.
MARK = "PX_"
_NAME = re.compile(r"\bpx_\w+(?=\()")
#: The longest text that functions may make which can make it much longer than what they are given.
LONGEST_TEXT = 1_000_000


#: ASCII, which is quick; what is no text is refused by the name of the function, since that comes first
_PLAIN = "WHEN x IS NULL THEN {0}(x) WHEN strlen(x) = length(x) THEN {0}(x)"


def _capitals() -> str:
    """Some characters become several in capitals, which DuckDB leaves as they are."""
    pairs = [(chr(code), chr(code).upper()) for code in range(0x80, 0xFB18)]
    special = [(one, many) for one, many in pairs if len(many) > 1]
    text = "x"
    for one, many in special:
        text = f"replace({text}, '{one}', '{many}')"
    among = "".join(one for one, _ in special)
    some = f"regexp_matches(x, '[{among}]')"
    return f"CASE {_PLAIN.format('upper')} WHEN {some} THEN upper({text}) ELSE upper(x) END"


#: A sigma at the end of a word, with a letter before it and none behind, is another letter.
_SMALL = (
    f"CASE {_PLAIN.format('lower')}"
    + r""" WHEN regexp_matches(x, '[ΣİͅK]') THEN
    lower(regexp_replace(replace(x, 'İ', 'i̇'), '(\p{L}\p{Mn}*)Σ(\P{L}|$)', '\1ς\2', 'g')) ELSE lower(x) END"""
)

#: A number as Java writes it: 2.5, 1.0E10, NaN.
_NUMBER = """CASE
    WHEN isnan(x) THEN 'NaN'
    WHEN isinf(x) THEN CASE WHEN x > 0 THEN 'Infinity' ELSE '-Infinity' END
    WHEN x = 0 OR (abs(x) >= 0.001 AND abs(x) < 10000000) THEN CAST(x AS VARCHAR)
    WHEN contains(CAST(x AS VARCHAR), 'e')
        THEN regexp_replace(regexp_replace(CAST(x AS VARCHAR), 'e[+]?(-?)0*', 'E\\1'), '^(-?[0-9])E', '\\1.0E')
    ELSE CASE WHEN x < 0 THEN '-' ELSE '' END || px_scientific(ltrim(CAST(x AS VARCHAR), '-'), abs(x) >= 1)
    END"""

#: "12345678.9" or "0.0001" in scientific notation.
_SCIENTIFIC = """px_mantissa(ltrim(replace(t, '.', ''), '0')) || 'E' || CAST(CASE WHEN large
    THEN strpos(t, '.') - 2 ELSE 1 + length(ltrim(substr(t, 3), '0')) - length(t) END AS VARCHAR)"""
_MANTISSA = "left(d, 1) || '.' || CASE WHEN rtrim(substr(d, 2), '0') = '' THEN '0' ELSE rtrim(substr(d, 2), '0') END"

_MACROS: dict[str, str] = {
    "px_lower(x)": _SMALL,
    "px_mantissa(d)": _MANTISSA,
    "px_scientific(t, large)": _SCIENTIFIC,
    "px_number(x)": _NUMBER,
    "px_repeat(s, n)": f"""CASE WHEN CAST(length(s) AS BIGINT) * n > {LONGEST_TEXT}
        THEN error('repeat: the text may have {LONGEST_TEXT} characters, not ' || length(s) || ' times ' || n)
        ELSE repeat(s, n) END""",
    # how often a piece is there is counted only where it could be too often
    "px_replace(s, old, new)": f"""CASE WHEN length(new) > length(old) AND old <> ''
        AND CAST(length(s) AS BIGINT) * length(new) > {LONGEST_TEXT} * CAST(length(old) AS BIGINT)
        AND length(s) + CAST(length(s) - length(replace(s, old, '')) AS BIGINT) // greatest(length(old), 1)
        * (length(new) - length(old)) > {LONGEST_TEXT}
        THEN error('replace: the text may have {LONGEST_TEXT} characters, and would have more')
        ELSE replace(s, old, new) END""",
    "px_replaced(was, rest, matches, size, pieces)": "rest + matches * CAST(size AS BIGINT) + pieces * (was - rest)",
    # for a match: `size` characters and `pieces` of it, each of which may be all of it
    "px_regexp_replace(s, pattern, new, size, pieces)": f"""CASE
        WHEN (length(s) + 1) * CAST(size + pieces AS BIGINT) > {LONGEST_TEXT} AND px_replaced(length(s),
        length(regexp_replace(s, pattern, '', 'g')), len(regexp_extract_all(s, pattern)), size, pieces)
        > greatest({LONGEST_TEXT}, length(s))
        THEN error('regexp_replace: the text may have {LONGEST_TEXT} characters, and would have more')
        ELSE regexp_replace(s, pattern, new, 'g') END""",
    **{
        f"px_{pad}(s, n, fill)": f"""CASE WHEN n > {LONGEST_TEXT}
            THEN error('{pad}: the length may be {LONGEST_TEXT}, not ' || n)
            WHEN fill = '' THEN left(s, greatest(n, 0)) ELSE {pad}(s, CAST(greatest(n, 0) AS INTEGER), fill) END"""
        for pad in ("lpad", "rpad")
    },
    "px_split_part(s, delimiter, part)": """CASE WHEN part = 0
        THEN error('split_part: the number of the part may not be 0; the first is 1, the last -1')
        WHEN delimiter = '' THEN CASE WHEN part IN (1, -1) THEN s ELSE '' END
        ELSE split_part(s, delimiter, part) END""",
    "px_locate(s, piece, start)": """CAST(CASE WHEN strpos(substring(s, start), piece) IS NULL THEN NULL
        WHEN start >= 1 AND strpos(substring(s, start), piece) > 0 THEN strpos(substring(s, start), piece) + start - 1
        ELSE 0 END AS BIGINT)""",
    "px_levenshtein(a, b)": """CASE WHEN strlen(a) <> length(a) OR strlen(b) <> length(b)
        THEN error('levenshtein: text must be ASCII') ELSE levenshtein(a, b) END""",
    "px_chr(n)": "CASE WHEN n < 0 THEN '' ELSE chr(CAST(n % 256 AS INTEGER)) END",
    # downwards before 1970 too, in integers: a double can't hold all microseconds
    **{
        f"px_{name}(t)": f"((epoch_us(t) - ((epoch_us(t) % {per} + {per}) % {per})) // {per})"
        for name, per in (("seconds", 1_000_000), ("millis", 1_000))
    },
    "px_element(v, i)": """CASE WHEN i < 0 OR i >= len(v)
        THEN error('there is no element [' || i || '] in a list of ' || len(v) || ': the first is [0]')
        ELSE list_extract(v, CAST(i AS BIGINT) + 1) END""",
    "px_element_at(v, i)": """CASE WHEN i = 0 OR abs(CAST(i AS BIGINT)) > len(v)
        THEN error('element_at: no element ' || i || ' is in a list of ' || len(v) || ': the first is 1, the last -1')
        ELSE list_extract(v, CAST(i AS BIGINT)) END""",
    "px_contains(v, x)": """CASE WHEN v IS NULL OR x IS NULL THEN NULL WHEN list_contains(v, x) THEN TRUE
        WHEN list_count(v) < len(v) THEN NULL ELSE FALSE END""",
    "px_whole(s)": "CASE WHEN regexp_full_match(s, '\\s*[+-]?[0-9]+\\s*') THEN s ELSE '?' || s END",
    "px_fraction(s)": """CASE WHEN regexp_full_match(s,
        '(?i)\\s*[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)\\s*') THEN s ELSE '?' || s END""",
    "px_day(s)": """CASE WHEN regexp_full_match(s, '\\s*[0-9]{4}\\s*') THEN trim(s) || '-01-01'
        WHEN regexp_full_match(s, '\\s*[0-9]{4}-[0-9]{1,2}\\s*') THEN trim(s) || '-01'
        WHEN regexp_full_match(s, '(?s)\\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T].*)?\\s*')
        THEN regexp_extract(s, '[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}') ELSE '?' || s END""",
    # a product may be a little beside the half that the number as it is written is
    "px_round(x, n)": """CASE WHEN abs(x) < 1e15 AND abs(x * pow(10, n) - floor(x * pow(10, n)) - 0.5)
        < 1e-6 + abs(x * pow(10, n)) * 1e-15
        THEN CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 20)), n) AS DOUBLE) ELSE round(x, n) END""",
}


@cache
def _made() -> dict[str, str]:
    """Name -> the statement that makes it."""
    every = {"px_upper(x)": _capitals(), **_MACROS}
    return {head.partition("(")[0]: f"CREATE TEMP MACRO {head} AS {body}" for head, body in every.items()}


def macros(text: str) -> dict[str, str]:
    """The functions of ours that are called in SQL, and those that they call, before them."""
    found: dict[str, str] = {}
    for name in _NAME.findall(text.lower()):
        statement = _made().get(name)
        if statement is not None:  # else it is a piece of text
            found |= {**macros(statement.partition(" AS ")[2]), name: statement}
    return found
