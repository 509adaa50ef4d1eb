"""Random expressions of a wanted kind over given columns."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.cql_fuzz.offers import Col
from tests.cql_fuzz.terms import Term, agg, col, const, op

WORDS = ("a", "b", "ab", "", "Ba", "it's")


#: aggregates for which DISTINCT would change which value they give
_BY_ORDER = ("first", "last")


class Terms:
    """`columns`: (column, how it is written); names are sometimes written in another case."""

    def __init__(self, rng: random.Random, columns: Sequence[tuple[Col, str | None]], *, ordered: bool = True) -> None:
        self.rng = rng
        self.columns = list(columns)
        self.ordered = ordered

    def column(self, *kinds: str) -> Term | None:
        found = [(c, q) for c, q in self.columns if c.kind in kinds]
        if not found:
            return None
        chosen, qualifier = self.rng.choice(found)
        return self.written(chosen, qualifier)

    def written(self, column: Col, qualifier: str | None) -> Term:
        name = column.name
        if self.rng.random() < 0.05:
            name = name.upper()
        return col(name, qualifier)

    def constant(self, kind: str) -> Term:
        rng = self.rng
        if kind == "int":
            return const(rng.randint(-3, 9))
        if kind == "float":
            return const(rng.randint(-6, 20) / 2)
        if kind == "str":
            return const(rng.choice(WORDS))
        return const(rng.random() < 0.5)

    def leaf(self, kind: str) -> Term:
        found = self.column(kind) if self.rng.random() < 0.8 else None
        return found or self.constant(kind)

    def of(self, kind: str, depth: int = 2) -> Term:
        """A term of a kind: int, float, str or bool."""
        if depth <= 0 or self.rng.random() < 0.45:
            return self.leaf(kind)
        return {"int": self._int, "float": self._float, "str": self._str, "bool": self.condition}[kind](depth)

    def _either(self, kind: str, depth: int) -> Term:
        """What there is for every kind."""
        rng = self.rng
        pick = rng.randrange(3)
        if pick == 0:
            return op("case", self.condition(depth - 1), self.of(kind, depth - 1), self.of(kind, depth - 1))
        if pick == 1:
            return op("call", "coalesce", self.of(kind, depth - 1), self.constant(kind))
        return op("call", "nullif", self.of(kind, depth - 1), self.constant(kind))

    def _int(self, depth: int) -> Term:
        rng = self.rng
        pick = rng.randrange(9)
        if pick < 3:
            return op(rng.choice("+-"), self.of("int", depth - 1), self.of("int", depth - 1))
        if pick == 3:
            return op("*", self.of("int", depth - 1), const(rng.randint(0, 4)))
        if pick == 4:
            return op("%", self.of("int", depth - 1), const(rng.randint(1, 5)))
        if pick == 5:
            return op(rng.choice("&|^"), self.of("int", depth - 1), const(rng.randint(0, 7)))
        if pick == 6 and self.column("str") is not None:
            return op("call", "length", self.of("str", depth - 1))
        if pick == 7:
            return op("call", "abs", self.of("int", depth - 1))
        return self._either("int", depth)

    def _float(self, depth: int) -> Term:
        rng = self.rng
        pick = rng.randrange(7)
        if pick < 2:
            pair = [self.of("float", depth - 1), self.of(rng.choice(("int", "float")), depth - 1)]
            rng.shuffle(pair)
            return op(rng.choice("+-*"), *pair)
        if pick == 2:
            return op("/", self.of(rng.choice(("int", "float")), depth - 1), self.of("int", depth - 1))
        if pick == 3:
            return op("cast", self.of("int", depth - 1), "DOUBLE")
        if pick == 4:
            return op("call", rng.choice(("greatest", "least")), self.of("float", depth - 1), self.constant("float"))
        return self._either("float", depth)

    def _str(self, depth: int) -> Term:
        pick = self.rng.randrange(4)
        if pick == 0:
            return op("call", "concat", self.of("str", depth - 1), self.of("str", depth - 1))
        if pick == 1:
            return op("call", self.rng.choice(("upper", "lower")), self.of("str", depth - 1))
        if pick == 2:
            return op("cast", self.of("int", depth - 1), "STRING")
        return self._either("str", depth)

    def condition(self, depth: int = 2) -> Term:
        """A term of kind bool."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.25:
            pick = rng.randrange(3)
            if pick == 2:
                return op("not", self.condition(depth - 1))
            return op(("and", "or")[pick], self.condition(depth - 1), self.condition(depth - 1))
        kind = rng.choice([c.kind for c, _ in self.columns if c.kind != "time"] or ["int"])
        pick = rng.randrange(10)
        if kind == "bool":
            found = self.column("bool")
            assert found is not None
            return found if pick < 7 else op("is null", found)
        if pick < 6:
            other = rng.choice(("int", "float")) if kind in ("int", "float") else kind
            sign = rng.choice(("=", "<>", "<", "<=", ">", ">="))
            return op(sign, self.of(kind, depth - 1), self.of(other, min(depth - 1, 1)))
        if pick == 6:
            return op("is null", self.leaf(kind))
        if pick == 7:
            items = [self.constant(kind) for _ in range(rng.randint(1, 3))]
            return op("in", self.of(kind, depth - 1), *items)
        if pick == 8 and kind == "str":
            if rng.random() < 0.5:
                return op("like", self.of("str", depth - 1), rng.choice(("a%", "%b", "_", "%", "a_")))
            return op("rlike", self.of("str", depth - 1), rng.choice(("a", "^b", "b$", "[ab]+", "^$")))
        low, high = self.constant(kind), self.constant(kind)
        return op("between", self.of(kind, depth - 1), low, high)

    # --- aggregates ---

    def aggregate(self, kind: str) -> Term:
        """An aggregate that gives a value of a kind."""
        rng = self.rng
        where = self.condition(1) if rng.random() < 0.1 else None
        if kind == "int" and rng.random() < 0.45:
            pick = rng.randrange(3)
            of = rng.choice(("int", "float", "str", "bool"))
            if pick == 0:
                return agg("count", where=where)
            if pick == 1:
                return agg("count", self.of(of, 1), where=where)
            return agg("count", self.of(of, 1), distinct=True, where=where)
        ranked = ["min", "max", "median", "mode"] if kind != "bool" else ["min", "max"]
        if self.ordered:
            ranked += ["first", "last"]
        if kind == "int":
            if rng.random() < 0.1:
                return agg("count_if", self.of("bool", 1), where=where)
            name = rng.choice(["sum", "sum", "try_sum", "bit_and", "bit_or", "bit_xor", *ranked])
            name = "max" if name == "median" else name
            return agg(name, self.of("int", 1), where=where, distinct=name not in _BY_ORDER and rng.random() < 0.1)
        if kind == "float":
            name = rng.choice(["sum", "avg", "avg", "variance", "stddev", *ranked])
            of = rng.choice(("int", "float")) if name in ("avg", "variance", "stddev", "median") else "float"
            return agg(name, self.of(of, 1), where=where)
        if kind == "str":
            name = rng.choice([n for n in ranked if n != "median"])
            return agg(name, self.of("str", 1), where=where)
        return agg(rng.choice([*ranked, "bool_and", "bool_or", "any", "every"]), self.of("bool", 1), where=where)


class OverGroups(Terms):
    """Terms whose leaves are aggregates and the columns that rows are grouped by (which are `columns`)."""

    def __init__(self, rng: random.Random, rows: Terms, groups: Sequence[tuple[Col, str | None]]) -> None:
        super().__init__(rng, groups)
        self.rows = rows

    def leaf(self, kind: str) -> Term:
        found = self.column(kind) if self.rng.random() < 0.2 else None
        if found is None:
            found = self.rows.aggregate(kind) if self.rng.random() < 0.85 else self.constant(kind)
        return found

    def condition(self, depth: int = 1) -> Term:
        rng = self.rng
        if depth > 0 and rng.random() < 0.2:
            return op(rng.choice(("and", "or")), self.condition(depth - 1), self.condition(depth - 1))
        kind = rng.choice(("int", "int", "float"))
        if rng.random() < 0.1:
            return op("is null", self.leaf(kind))
        return op(rng.choice(("=", "<>", "<", "<=", ">", ">=")), self.rows.aggregate(kind), self.of("int", 0))
