"""How many arguments each scalar function takes; sqlglot builds a call from any number of them."""

from __future__ import annotations

from panes.plan.dialect import PLAIN_CALLS

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
    (2, 3): "if lpad rpad locate regexp_extract datediff",
    (2, _MANY): "greatest least concat_ws",
    (3, 3): "nvl2 replace split_part regexp_replace translate",
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
    fewest, most = ARITY.get(name.lower(), (0, _MANY))
    if fewest <= count <= most:
        return None
    if most == _MANY:
        wanted = f"{fewest} or more arguments"
    elif fewest == most:
        wanted = f"{fewest} argument{'' if fewest == 1 else 's'}"
    else:
        wanted = f"{fewest} {'or' if most == fewest + 1 else 'to'} {most} arguments"
    return f"{name.lower()} takes {wanted}, not {count}"
