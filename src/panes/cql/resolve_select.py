"""SELECT: inputs and their windows, then every expression, then the rules that hold for the whole.

A window makes a relation of a part of a stream; without one, only what works row by row is possible
(SPEC Q-13). Joins take windows on both sides (Q-18).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from panes.cql import tree
from panes.cql.catalog import (
    Catalog,
    ResolvedInput,
    ResolvedJoin,
    ResolvedOrder,
    ResolvedOutput,
    ResolvedSelect,
    ResolvedSource,
    StreamEntry,
    column_named,
    inputs_of,
)
from panes.cql.dialect import expression_text
from panes.cql.errors import did_you_mean
from panes.cql.expressions import ExpressionResolver, SelectNames, aggregates_in, has_aggregates
from panes.cql.resolve_windows import WindowResolver
from panes.cql.sources import stream_of_data
from panes.cql.timing import absent_columns, is_of_windows
from panes.cql.tree import Name, Select, SelectItem
from panes.plan.expressions import text_of
from panes.plan.trees import copied, rebuilt
from panes.plan.written import in_place_of, named

#: Columns that an entry of a SELECT stands for: names and resolved trees.
Shown = list[tuple[str, exp.Expr]]

_ADD_WINDOW = "add [SIZE ...] after the stream's name"


class SelectResolver(WindowResolver):
    """Resolves selects against a catalog."""

    def __init__(self, catalog: Catalog, text: str) -> None:
        super().__init__(catalog, text)
        #: where the text names each stream, for messages
        self.places: dict[str, Name] = {}

    def stream(self, name: Name) -> StreamEntry:
        """The stream of that name: one that a statement made, or data that the program gave."""
        self.places.setdefault(name.text.lower(), name)
        found = self.catalog.streams.find(name.text) or stream_of_data(self.catalog, name.text)
        if found is None:
            known = [*self.catalog.streams.names, *self.catalog.data]
            hint = did_you_mean(name.text, known) or "create it first: CREATE STREAM ..."
            self.fail(f"there is no stream {name.text!r}", name, hint)
        return found

    def select(self, node: Select) -> ResolvedSelect:
        source = self._reference(node.source)
        inputs = inputs_of(source)
        names = SelectNames.of(source, absent_columns(inputs, self.catalog, node.clauses))
        expressions = ExpressionResolver(names, self.fail)
        rows = expressions if names.joined or not names.windowed else ExpressionResolver(names.of_rows, self.fail)
        where = None if node.where is None else rows.row(node.where, "WHERE")
        entries = [(entry, self._entry(entry, expressions)) for entry in node.entries]
        shared = [] if where is None or rows is not expressions else [where]
        expressions.prepare([*shared, *(t for _, shown in entries for _, t in shown)])
        if where is not None and node.where is not None:
            self._check_condition(rows, where, node.where, "WHERE")
        keys = self._keys(node, expressions)
        outputs = self._outputs(entries, expressions)
        having = None
        if node.having is not None:
            having = expressions.resolve(self._with_aliases(node.having, node.entries, names))
            self._check_condition(expressions, having, node.having, "HAVING")
        order = tuple(self._order(item, node, expressions) for item in node.order_by)
        trees = [*(o.tree for o in outputs), *([having] if having is not None else []), *(o.tree for o in order)]
        aggregated = any(has_aggregates(t) for t in trees)
        parts = dict.fromkeys((s, p.text) for s, one in enumerate(inputs) for w in one.windows for p in w.partitioned)
        groups = tuple(names.column(*part) for part in parts)
        made = ResolvedSelect(
            outputs, source, where, keys, groups, having, order, node.limit, node.distinct, aggregated,
            node.clauses,
        )  # fmt: skip
        if names.windowed or names.joined:
            self._check_windowed(node, made, names)
        else:
            self._check_bare(node, made)
        return made

    def _reference(self, node: tree.Reference) -> ResolvedSource:
        if isinstance(node, tree.Join):
            return self._join(node)
        if isinstance(node, tree.StreamRef):
            entry = self.stream(node.name)
            alias = node.alias.text if node.alias is not None else entry.name
            return self.windowed(ResolvedInput(alias, entry.columns, entry), node.windows)
        query = self.select(node.query)
        if is_windowed_stream(query):
            self.fail(
                "a subquery that only windows a stream gives windows, not a stream",
                node.span,
                "rewrite moves its window to the enclosing reference: (SELECT ...) [SIZE ...] AS name",
            )
        alias = "" if node.alias is None else node.alias.text
        return self.windowed(ResolvedInput(alias, query.columns, query), node.windows)

    def _join(self, node: tree.Join) -> ResolvedJoin:
        left, right = self._reference(node.left), self._reference(node.right)
        assert isinstance(right, ResolvedInput)
        inputs = (*inputs_of(left), right)
        self._check_sides(inputs, node)
        using = []
        for name in node.using:
            found = []
            for one in inputs:
                column = column_named(one.columns, name.text)
                if column is None:
                    hint = did_you_mean(name.text, [c.name for c in one.columns])
                    self.fail(f"USING ({name.text}): {one.alias} has no column {name.text!r}", name, hint)
                found.append(column.name)
            using.append(found[0])
        joined = ResolvedJoin(left, right, node.kind, None, tuple(using))
        if node.on is None:
            return joined
        names = SelectNames.of(joined, absent_columns(inputs, self.catalog))
        expressions = ExpressionResolver(names, self.fail)
        on = expressions.row(node.on, "the ON of a join")
        self._check_condition(expressions, on, node.on, "ON")
        return ResolvedJoin(left, right, node.kind, on, joined.using)

    def _check_sides(self, inputs: Sequence[ResolvedInput], node: tree.Join) -> None:
        """Every side has an own alias and the same time-based window (SPEC Q-18)."""
        seen: set[str] = set()
        for one in inputs:
            if not one.alias:
                self.fail("each side of a join needs a name", node.span, "write (SELECT ...) [SIZE ...] AS name")
            if one.alias.lower() in seen:
                self.fail(f"{one.alias} is on both sides of the join", node.span, "give each side an alias: AS name")
            seen.add(one.alias.lower())
        first = inputs[0]
        for one in inputs:
            if not one.windows:
                self.fail(f"{one.alias} has no window, and a join needs one on each side", node.span, _ADD_WINDOW)
            if len(one.windows) > 1:
                self.fail(f"{one.alias} has {len(one.windows)} windows, and a join takes one", node.span)
            window = one.windows[0]
            refused = window.refused_in_joins(one.alias)
            if refused is not None:
                self.fail(refused[0], window.span or node.span, refused[1])
            if window.shape() != first.windows[0].shape():
                self.fail(
                    f"{first.alias} and {one.alias} have different windows",
                    window.span or node.span,
                    "a join needs the same time-based window on both sides",
                )

    def _keys(self, node: Select, expressions: ExpressionResolver) -> tuple[ResolvedOutput, ...]:
        keys: dict[str, ResolvedOutput] = {}
        for written in node.group_by:
            resolved = expressions.row(self._with_aliases(written, node.entries, expressions.names), "GROUP BY")
            if expressions.names.windowed and is_of_windows(resolved):
                continue  # a column of the window: every result is of one anyway
            if isinstance(resolved, exp.Literal):
                self.fail("GROUP BY takes columns or expressions, not a constant", written)
            name = expressions.names.own_name(resolved) or text_of(resolved)
            kind = expressions.type(resolved, written)
            if pa.types.is_nested(kind.arrow):
                self.fail(f"GROUP BY takes single values; this is {kind}", written)
            keys.setdefault(text_of(resolved), ResolvedOutput(name, resolved, kind))
        return tuple(keys.values())

    def _order(self, item: tree.OrderItem, node: Select, expressions: ExpressionResolver) -> ResolvedOrder:
        written = self._with_aliases(item.expression, node.entries, expressions.names, aliases_first=True)
        resolved = expressions.resolve(written)
        expressions.type(resolved, item.expression)
        return ResolvedOrder(resolved, item.descending, item.nulls_first)

    def _outputs(
        self, entries: Sequence[tuple[SelectItem, Shown]], expressions: ExpressionResolver
    ) -> tuple[ResolvedOutput, ...]:
        if not entries:
            self.fail("SELECT needs at least one column", None)
        taken: set[str] = set()
        outputs = []
        for entry, (shown, resolved) in ((entry, item) for entry, trees in entries for item in trees):
            name, number = shown, 1
            while name.lower() in taken:
                number += 1
                name = f"{shown}_{number}"
            taken.add(name.lower())
            kind = expressions.type(resolved, entry.expression)
            outputs.append(ResolvedOutput(name, resolved, kind, getattr(entry.alias, "span", None)))
        return tuple(outputs)

    def _entry(self, entry: SelectItem, expressions: ExpressionResolver) -> Shown:
        """Names of columns and resolved trees; a star stands for several."""
        names, written = expressions.names, entry.expression
        if isinstance(written, exp.Star):
            return [(c.name, names.shown(side, c)) for side, c in names.all()]
        if isinstance(written, exp.Column) and isinstance(written.this, exp.Star):
            with expressions.shown(written):
                return [(c.name, names.shown(side, c)) for side, c in names.of_side(written)]
        resolved = expressions.resolve(written)
        if entry.alias is not None:
            return [(entry.alias.text, resolved)]
        return [(names.own_name(resolved) or generated_name(written), resolved)]

    def _with_aliases(
        self, written: exp.Expr, entries: tuple[SelectItem, ...], names: SelectNames, *, aliases_first: bool = False
    ) -> exp.Expr:
        """Names of entries written out, as HAVING, GROUP BY and ORDER BY may use them; columns come first.

        Not in ORDER BY, which is about what is selected; inside of an aggregate there are only columns.
        """
        known = set() if aliases_first else {c.name.lower() for i in names.inputs for c in i.columns}
        aliases = {e.alias.text.lower(): e.expression for e in entries if e.alias is not None}

        def change(node: exp.Expr) -> exp.Expr | None:
            if aliases_first and aggregates_in(node) == [node]:
                return copied(node)
            if not isinstance(node, exp.Column) or node.table or node.name.lower() in known:
                return None
            found = aliases.get(node.name.lower())
            return None if found is None else in_place_of(exp.Paren(this=copied(found)), node, named(node.name))

        return rebuilt(written, change).unnest()

    def _check_condition(self, expressions: ExpressionResolver, made: exp.Expr, written: exp.Expr, clause: str) -> None:
        kind = expressions.type(made, written)
        if not pa.types.is_boolean(kind.arrow):
            self.fail(f"{clause} must be a condition, true or false; this is {kind}", written)

    def _check_bare(self, node: Select, made: ResolvedSelect) -> None:
        """Without a window: only what works row by row."""
        for entry in node.entries:
            for call in aggregates_in(entry.expression):
                self.fail("a blocking aggregate without a window", call, _ADD_WINDOW)
        for what, found in (
            ("GROUP BY", node.group_by),
            ("HAVING", node.having),
            ("ORDER BY", [i.expression for i in node.order_by]),
        ):
            if found:
                at = found[0] if isinstance(found, tuple | list) else found
                self.fail(f"{what} on a stream without a window would wait for ever", at, _ADD_WINDOW)
        for what, there in (("DISTINCT", node.distinct), ("LIMIT", node.limit is not None)):
            if there:
                self.fail(f"{what} on a stream without a window would wait for ever", node.span, _ADD_WINDOW)
        for clause in node.clauses:
            self.fail(f"{clause.word} says {clause.about}, and there is none", node.span, _ADD_WINDOW)

    def _check_windowed(self, node: Select, made: ResolvedSelect, names: SelectNames) -> None:
        if made.having is not None and not made.aggregated:
            self.fail("HAVING is a condition on aggregates, and there are none", node.having, "use WHERE")
        for clause in node.clauses:
            refused = clause.refused(made)
            if refused is not None:
                self.fail(refused[0], node.span, refused[1])
        if not made.aggregated:
            return
        allowed = {text_of(tree) for tree in (*(k.tree for k in made.keys), *made.parts)}
        checks = [(o.tree, e) for o, e in zip(made.outputs, self._written(node, made), strict=True)]
        checks += [(o.tree, i.expression) for o, i in zip(made.order_by, node.order_by, strict=True)]
        if made.having is not None and node.having is not None:
            checks.append((made.having, node.having))
        for resolved, written in checks:
            column = _bare_column(resolved, allowed)
            if column is not None:
                bare = names.own_name(column) or column.name
                at = next((c for c in written.find_all(exp.Column) if c.name.lower() == bare.lower()), written)
                self.fail(
                    f"{bare!r} is neither aggregated nor grouped by",
                    at,
                    f"a window has many rows: write an aggregate such as max({bare}), or GROUP BY {bare}",
                )

    def _written(self, node: Select, made: ResolvedSelect) -> list[exp.Expr]:
        """What was written for each output; a star stands for several."""
        if len(node.entries) == len(made.outputs):
            return [e.expression for e in node.entries]
        return [node.entries[0].expression] * len(made.outputs)


def is_windowed_stream(query: ResolvedSelect) -> bool:
    """Whether a query only puts windows on a stream and computes nothing over them."""
    return bool(
        isinstance(query.source, ResolvedInput)
        and query.source.windows
        and not (query.aggregated or query.keys or query.order_by or query.distinct or query.limit is not None)
    )


def generated_name(written: exp.Expr) -> str:
    """The name of a column that is an expression and has no alias: how it reads, without qualifiers."""
    bare = rebuilt(
        written,
        lambda n: exp.Column(this=n.this.copy()) if isinstance(n, exp.Column) else None,
    )
    return expression_text(bare)


def _bare_column(resolved: exp.Expr, allowed: set[str]) -> exp.Column | None:
    """A column outside of aggregates that is not one of the groups."""
    found: list[exp.Column] = []
    calls = {id(c) for c in aggregates_in(resolved)}

    def visit(node: exp.Expr) -> None:
        if id(node) in calls or text_of(node) in allowed:
            return
        if isinstance(node, exp.Column):
            if not is_of_windows(node):
                found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(resolved)
    return found[0] if found else None
