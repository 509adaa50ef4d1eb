"""Random programs: schemas and streams in every way the language has, then one to three queries."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from panes.cql import tree
from panes.cql.clauses import Watermark
from panes.cql.tree import ColumnDefinition, Name, Quantity
from tests.cql_fuzz import gen_data
from tests.cql_fuzz.gen_select import Made, Selects
from tests.cql_fuzz.gen_terms import Terms
from tests.cql_fuzz.offers import KINDS, Col, Offer
from tests.cql_fuzz.programs import Columns, Data, Program

#: what a value of a kind may be declared as
_DECLARED = {
    "int": ("Long", "Double"),
    "float": ("Double",),
    "str": ("String",),
    "bool": ("Boolean",),
    "time": ("Datetime",),
}


def generate(seed: int) -> Program:
    return Generator(seed).program()


class Generator:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.data: dict[str, Data] = {}
        self.streams: dict[str, Offer] = {}
        self.statements: list[Any] = []
        self.clocks: dict[int, tuple[int, ...]] = {}

    def program(self) -> Program:
        rng = self.rng
        for _ in range(rng.choice((1, 1, 1, 1, 2, 2))):
            self.base()
        if rng.random() < 0.25:
            for _ in range(rng.choice((1, 1, 2))):
                rng.choice((self.derived, self.derived, self.bound_later, self.split, self.merged))()
        for _ in range(rng.choice((1, 1, 1, 1, 1, 2))):
            self.query()
        return Program(self.seed, self.data, tuple(self.statements), self.clocks)

    def new(self, stem: str) -> str:
        return f"{stem}{len(self.streams) + 1}"

    # --- streams ---

    def base(self) -> None:
        rng = self.rng
        alike = [(n, d) for n, d in self.data.items() if n in self.streams]
        columns = rng.choice(alike)[1].columns if alike and rng.random() < 0.4 else gen_data.columns(rng)
        disorder = rng.choice((0, 0, 0, 4)) if any(n == "ts" for n, _ in columns) else 0
        null_times = rng.random() < 0.05
        rows = gen_data.rows(rng, columns, disorder=disorder, null_times=null_times)
        name = self.new("s")
        steady = {"m", *(["ts"] if not disorder and not null_times else [])}
        offer = Offer(tuple(Col(n, KINDS[t], n in steady, t) for n, t in columns), base=True)
        declared = rng.random() < 0.6 or disorder > 0
        if not declared:
            self.data[name] = Data(columns, rows)
            self.streams[name] = offer
            return
        given = f"data_{name}"
        self.data[given] = Data(columns, rows, tuples=bool(rows) and rng.random() < 0.5)
        clauses: tuple[Watermark, ...] = ()
        if any(n == "ts" for n, _ in columns) and (disorder or rng.random() < 0.3):
            on_time = dict(columns)["ts"] == "datetime"
            delay = rng.choice((0, disorder, disorder, 2))
            clauses = (Watermark(Quantity(delay, "sec" if on_time else "ms"), Name("ts")),)
            offer = replace(offer, time="ts")
        stream = tree.CreateStream(Name(name), self.schema(name, columns), tree.SourceStream(given), clauses=clauses)
        self.statements.append(stream)
        self.streams[name] = offer

    def schema(self, name: str, columns: Columns) -> Any:
        """Anonymous, or a schema made before: whole, as a copy, or in two parts."""
        rng = self.rng
        spelling = rng.choice((str, str.upper, str.capitalize))
        attributes = tuple(ColumnDefinition(Name(n), Name(spelling(t))) for n, t in columns)
        pick = rng.randrange(5)
        if pick < 2:
            return attributes
        own = Name(f"{name}_schema")
        if pick == 2:
            self.statements.append(tree.CreateSchema(own, attributes))
        elif pick == 3:
            first = Name(f"{name}_first")
            self.statements.append(tree.CreateSchema(first, attributes))
            self.statements.append(tree.CreateSchema(own, first))
        else:
            cut = rng.randint(1, len(attributes)) if len(attributes) > 1 else 1
            if cut == len(attributes):
                return attributes
            parent = Name(f"{name}_parent")
            self.statements.append(tree.CreateSchema(parent, attributes[:cut]))
            self.statements.append(tree.CreateSchema(own, attributes[cut:], extends=parent))
        return own

    def derived(self) -> None:
        """CREATE STREAM ... AS SELECT, with or without a schema."""
        made = Selects(self.rng, self.streams).select(1)
        name = self.new("d")
        schema, offer = self.declared(made)
        self.statements.append(tree.CreateStream(Name(name), schema, query=made.select))
        self.streams[name] = replace(offer, base=False)

    def bound_later(self) -> None:
        """CREATE STREAM, then INSERT INTO."""
        made = Selects(self.rng, self.streams).select(1)
        name = self.new("i")
        schema, offer = self.declared(made, always=True)
        self.statements.append(tree.CreateStream(Name(name), schema))
        self.statements.append(tree.Insert(Name(name), made.select))
        self.streams[name] = replace(offer, base=False)

    def declared(self, made: Made, *, always: bool = False) -> tuple[Any, Offer]:
        """A schema that what a select gives converts to, by position; or none."""
        rng = self.rng
        if not always and rng.random() < 0.6:
            return None, made.offer
        attributes, columns = [], []
        for place, column in enumerate(made.offer.columns):
            kind = rng.choice(_DECLARED[column.kind])
            if column.name in (made.offer.time, *made.offer.also) and column.kind == "int":
                kind = "Long"
            name = f"{column.name}_{place}" if rng.random() < 0.5 else column.name
            if name.lower() in {c.name.lower() for c in columns}:
                name = f"{name}_{place}x"
            attributes.append(ColumnDefinition(Name(name), Name(kind)))
            columns.append(replace(column, name=name, kind="float" if kind == "Double" else column.kind))
        offer = made.offer.named([c.name for c in columns])
        return tuple(attributes), replace(offer, columns=tuple(columns))

    def split(self) -> None:
        rng = self.rng
        source = rng.choice(list(self.streams))
        offer = self.streams[source]
        clauses = []
        offers = {}
        for place in range(rng.randint(1, 3)):
            made = Selects(rng, self.streams).flow(tree.StreamRef(Name(source)), offer)
            target = f"p{len(self.streams) + 1}_{place}"
            where: Any = made.select.where or Terms(rng, [(c, None) for c in offer.columns]).condition(1)
            stream = Name(source) if rng.random() < 0.3 else None
            clauses.append(tree.SplitClause(Name(target), made.select.entries, where, stream))
            offers[target] = made.offer
        self.statements.append(tree.Split(Name(source), tuple(clauses)))
        self.streams |= offers

    def merged(self) -> None:
        names = self.alike()
        if names is None:
            self.derived()
            return
        merge = tree.Merge(tuple(map(Name, names)))
        offers = [self.streams[n] for n in names]
        name = self.new("m")
        first = offers[0]
        self.statements.append(tree.CreateStream(Name(name), self.schema_of(first), query=merge))
        time = first.time if len({o.time for o in offers}) == 1 else None
        columns = tuple(
            replace(c, steady=all(o.columns[i].steady for o in offers) and c.name == time)
            for i, c in enumerate(first.columns)
        )
        self.streams[name] = Offer(
            columns, time, all(o.ordered for o in offers), factors=max(o.factors for o in offers)
        )

    def schema_of(self, offer: Offer) -> Any:
        return tuple(ColumnDefinition(Name(c.name), Name(c.type.capitalize())) for c in offer.columns)

    def alike(self) -> list[str] | None:
        """Two or three streams with the same columns, read from data."""
        based = [n for n, o in self.streams.items() if o.base]
        for first in self.rng.sample(based, len(based)):
            shape = [(c.name, c.type) for c in self.streams[first].columns]
            others = [n for n in based if [(c.name, c.type) for c in self.streams[n].columns] == shape and n != first]
            if others:
                return [first, *others[: self.rng.randint(1, 2)]]
        return None

    # --- queries ---

    def query(self) -> None:
        rng = self.rng
        if rng.random() < 0.05:
            names = self.alike()
            if names is not None:
                self.statements.append(tree.Merge(tuple(map(Name, names))))
                return
        selects = Selects(rng, self.streams)
        selects.lists = True
        made = selects.select(2)
        if made.steps:
            now, ticks = rng.randint(0, 9) * 500_000, []
            for _ in range(30):
                now += rng.choice((0, 250_000, 1_000_000, 1_000_000, 4_000_000))
                ticks.append(now)
            self.clocks[len(self.statements)] = tuple(ticks)
        self.statements.append(made.select)
