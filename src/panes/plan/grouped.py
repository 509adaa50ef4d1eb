"""Trees over the rows of a window, to trees over its groups: aggregates and group expressions become columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from panes.aggregates.base import Aggregate
from panes.errors import ExpressionError
from panes.plan.aggregate_calls import is_aggregate_call
from panes.plan.aggregation import AggregateCompiler
from panes.plan.expressions import Expression, check_nodes, column_node, refusal
from panes.plan.hints import Hint
from panes.plan.names import Names
from panes.plan.trees import bare, copied
from panes.plan.written import as_written, in_place_of


def has_aggregate(tree: exp.Expr) -> bool:
    return any(is_aggregate_call(node) for node in tree.walk())


class GroupCompiler(AggregateCompiler):
    """Finds the aggregates of a relation. Columns of groups are panes.g0, ..., of aggregates panes.a0, ..."""

    def __init__(self, names: Names, groups: Sequence[Expression]) -> None:
        super().__init__(names.scope)
        self._names_inside = names
        self.groups = tuple(groups)
        self._columns = {bare(e.tree): f"panes.g{i}" for i, e in enumerate(groups)}

    @property
    def found(self) -> list[tuple[Aggregate, tuple[str, ...]]]:
        """The distinct aggregates, and the texts of their arguments."""
        return list(self._found)

    @property
    def inputs(self) -> list[Expression]:
        """The distinct arguments of aggregates."""
        return list(self._inputs.values())

    @property
    def conditions(self) -> list[Expression]:
        """The distinct conditions in FILTER clauses."""
        return list(self._conditions.values())

    def split(self, tree: exp.Expr, text: str) -> exp.Expr:
        """The tree over columns of groups, aggregates and windows."""
        self._text = text
        root = exp.Paren(this=copied(tree))
        check_nodes(root, text, aggregates=True)
        self._replace(root)
        found: exp.Expr = root.this
        return found

    def _replace(self, node: exp.Expr) -> bool:
        for child in list(node.iter_expressions()):
            if is_aggregate_call(child):
                written = as_written(child)
                child.replace(in_place_of(self._call(child), child, written))
            elif (group := self._group_of(child)) is not None:
                child.replace(in_place_of(column_node(group), child, as_written(child)))
            elif isinstance(child, exp.Column):
                rule = f"a group has many rows; write for instance max({child.name})"
                what = f"{child.name} must be in group_by or inside an aggregate"
                raise refusal(what, child, self._text, Hint(rule, f": {rule}"))
            else:
                self._replace(child)
        return True

    def _group_of(self, node: exp.Expr) -> str | None:
        """The column that holds the value of `node` for a whole group, if there is one."""
        if isinstance(node, exp.Identifier | exp.Literal | exp.DataType) or has_aggregate(node):
            return None
        try:
            found = self._scope.resolve(copied(node), self._text)
        except ExpressionError:
            if isinstance(node, exp.Column):
                raise
            return None
        group = self._columns.get(bare(found.tree))
        if group is not None:
            return group
        return found.column if self._names_inside.of_window(found.column) else None

    def _reference(self, place: int) -> exp.Expr:
        return column_node(f"panes.a{place}")
