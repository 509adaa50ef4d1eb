"""How many arguments each scalar function takes; sqlglot builds a call from any number of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

#: Listed functions that are taken as they are written, not as a node of sqlglot's: name -> (fewest, most) arguments.
PLAIN_CALLS = {
    "isnull": (1, 1),
    "isnotnull": (1, 1),
    "make_date": (3, 3),
    "to_date": (1, 2),
    "to_timestamp": (1, 2),
    "date_format": (2, 2),
    "size": (1, 1),
    "array_contains": (2, 2),
    "element_at": (2, 2),
    "date_part": (2, 2),
    "try_to_timestamp": (1, 2),
    "weekday": (1, 1),
    "timestamp_seconds": (1, 1),
    "timestamp_millis": (1, 1),
    "timestamp_micros": (1, 1),
}

#: fewest and most arguments, and the functions that take so many. Words between arguments, as in
#: substring(a FROM 2), separate nothing here.
_MANY = 10_000
_COUNTS: dict[tuple[int, int], str] = {
    (0, 0): "pi",
    (1, 1): """
        abs ceil ceiling floor sqrt cbrt exp ln log2 log10 sign signum sin cos tan asin acos atan degrees radians
        isnan upper ucase lower lcase length char_length character_length reverse ascii chr char md5
        year quarter month day dayofmonth hour minute second dayofweek dayofyear weekofyear
        last_day unix_seconds unix_millis unix_micros bit_count
        """,
    (1, 2): "round log trim ltrim rtrim",
    (1, 3): "substring substr position",
    (1, _MANY): "coalesce concat",
    (2, 2): """
        pow power mod atan2 nvl ifnull nullif left right repeat instr startswith endswith contains regexp_like
        levenshtein date_trunc date_add date_sub add_months
        """,
    (2, 3): "if replace lpad rpad locate regexp_extract datediff",
    (2, _MANY): "greatest least concat_ws",
    (3, 3): "nvl2 split_part regexp_replace translate",
}

#: name -> (fewest, most)
ARITY: dict[str, tuple[int, int]] = {
    **{name: count for count, names in _COUNTS.items() for name in names.split()},
    **PLAIN_CALLS,
}


def arity_problem(name: str, count: int) -> str | None:
    """What is wrong with calling a function with that many arguments: "round takes 1 or 2 arguments, not 0".

    >>> arity_problem("abs", 2)
    'abs takes 1 argument, not 2'
    """
    return count_problem(name, count, *ARITY.get(name.lower(), (0, _MANY)))


def call_problem(name: str, count: int, make: Callable[..., object]) -> str | None:
    """The same for what a function of Python makes, of an aggregate say."""
    given = inspect.signature(make).parameters.values()
    places = [p for p in given if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    most = _MANY if any(p.kind is p.VAR_POSITIONAL for p in given) else len(places)
    return count_problem(name, count, sum(p.default is p.empty for p in places), most)


def count_problem(name: str, count: int, fewest: int, most: int) -> str | None:
    if fewest <= count <= most:
        return None
    if most == _MANY:
        wanted = f"{fewest} or more arguments"
    elif fewest == most:
        wanted = f"{fewest} argument{'' if fewest == 1 else 's'}"
    else:
        wanted = f"{fewest} {'or' if most == fewest + 1 else 'to'} {most} arguments"
    return f"{name.lower()} takes {wanted}, not {count}"
