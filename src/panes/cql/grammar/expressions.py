"""Expressions: sqlglot reads them; here is what CQL leaves out, and what it orders otherwise."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokens import TokenType

from panes.cql.dialect import BITWISE, SYNTAX
from panes.cql.errors import CqlError, span_of
from panes.cql.grammar.words import Stop, WordReader
from panes.cql.lengths import unit_of
from panes.cql.lexing import MAX_NESTING, NESTING_RULE, TOO_DEEP
from panes.plan.dialect import PanesSQL
from panes.plan.functions import ARITY, arity_problem

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
#: What can't go on with an expression: a value before one of these is all of it.
_BEHIND = frozenset(
    {TokenType.COMMA, TokenType.FROM, TokenType.ALIAS, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.SENTINEL}
)
_VALUES = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING})
#: How deep a tree may be, which is how long a chain of operators may be.
MAX_DEPTH = 300

_LEAVES = (exp.Identifier, exp.Literal)
#: Types that a number in parentheses says more of.
_SIZED = (exp.DType.DECIMAL, exp.DType.VARCHAR, exp.DType.CHAR, exp.DType.NCHAR, exp.DType.NVARCHAR)
#: Functions for sqlglot, but written without brackets.
_WITHOUT_BRACKETS = (exp.Case, exp.If, exp.Connector)
_NOT_ALLOWED: dict[type[exp.Expr], str] = {
    exp.Select: "a query inside of an expression",
    exp.Subquery: "a query inside of an expression",
    exp.Exists: "EXISTS",
    exp.Window: "OVER (the windows of the stream take its place)",
    exp.Array: "a list",
    exp.Tuple: "a list of values",
    exp.Alias: "AS inside of an expression",
    exp.Lambda: "a function of its own",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a parameter",
    exp.Order: "ORDER BY inside of a call",
    exp.Kwarg: "a named argument",
    exp.National: "N'...'",
    exp.In: "IN without a list of values",
    exp.Interval: "an interval that is not a number and a unit",
    exp.DataType: "a size of a type that has none",
    exp.Dot: "a field of what has none",
    exp.DataTypeParam: "this parameter of a type",
}


class ExpressionReader(WordReader):
    #: signs between the parts of a name, and before a type
    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        TokenType.DOT: None,
        TokenType.DCOLON: PanesSQL.Parser.COLUMN_OPERATORS[TokenType.DCOLON],
    }

    def expression_here(self, what: str = "an expression") -> exp.Expr:
        """Read an expression, up to what can't belong to it."""
        first = self._curr
        if not first:
            self.fail_expecting(what)
        tree: exp.Expr | None = self._parse_disjunction()
        if tree is None:
            self.fail_expecting(what)
        self._check(tree, first)
        return self._placed(tree, first)

    def _placed(self, made: Any, first: Any) -> Any:
        """What was read, knowing where it stands: from `first` to where reading is. sqlglot forgets words and signs."""
        if isinstance(made, exp.Expr):
            made.meta["piece"] = (first.start, self._prev.end + 1)
        return made

    def condition(self) -> exp.Expr:
        return self.expression_here("a condition")

    def _check(self, tree: exp.Expr, first: Any) -> None:
        """Refuse syntax that is not CQL's, and trees that are too deep for those who walk them."""
        stack = [(tree, 1, 0)]
        while stack:
            node, depth, brackets = stack.pop()
            node.comments = None
            start = node.meta_get("start")
            if start is not None:
                places = self.name_places if isinstance(node, exp.Identifier) else self.call_places
                places.add(start)
            if not _is_known(node):
                self._refuse(node, first)
            if type(node) is exp.Literal and not node.is_string and node.this.count(".") > 1:
                self.fail(f"{node.this.removeprefix('0')} is not a number", token=first)  # sqlglot reads .5.5 as one
            if depth > MAX_DEPTH:
                self.fail(f"an expression may be {MAX_DEPTH} operators deep", token=first)
            if isinstance(node, exp.Trim) and node.text("position") == "BOTH" and not node.expression:
                node.set("position", None)
            # sqlglot puts some operands in parentheses that have none in the text
            brackets += isinstance(node, exp.Paren | exp.Func | exp.In) and not isinstance(node, _WITHOUT_BRACKETS)
            if brackets > MAX_NESTING:
                self.fail(TOO_DEEP, NESTING_RULE, token=first)
            if type(node) not in _LEAVES:
                stack.extend((child, depth + 1, brackets) for child in node.iter_expressions())

    def _refuse(self, node: exp.Expr, first: Any) -> None:
        what = _NOT_ALLOWED.get(type(node), "this kind of expression")
        span = span_of(node, self._whole) or self.span(first)
        raise Stop(CqlError(f"{what} can't be used here", text=self._whole, span=span))

    def _parse_disjunction(self) -> Any:
        # most expressions are a name or a value: not to look for every operator there is takes half the time
        if self._next.token_type in _BEHIND and self._curr.token_type in _VALUES:
            return self._parse_unary()
        return super()._parse_disjunction()

    def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> Any:
        # names of types are names of columns or functions unless text follows: TIMESTAMP '2015-01-01 12:00:00';
        # to try both, as sqlglot does, takes exponential time for int(int(int(...
        kind, following = self._curr.token_type, self._next.token_type
        if kind == TokenType.INTERVAL:
            if following not in (TokenType.STRING, TokenType.NUMBER):
                return self._parse_column()
        elif kind in self.TYPE_TOKENS and following != TokenType.STRING:
            return self._parse_column()
        return super()._parse_type(parse_interval, fallback_to_identifier)

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        # one: sqlglot takes a number or text behind it, or behind its +, for the next of a sum of intervals
        if not self._match(TokenType.INTERVAL):
            return None
        return self._parse_interval_span(self._parse_primary(), parse_function_unit=False)

    def _parse_primary(self) -> Any:
        # sqlglot keeps no place of a number that begins with its point
        point = self._curr
        made = super()._parse_primary()
        if isinstance(made, exp.Literal) and point.token_type == TokenType.DOT:
            made.meta.update(line=point.line, col=point.col, start=point.start, end=self._prev.end)
        return self._placed(made, point) if isinstance(made, exp.Paren | exp.Boolean | exp.Null) else made

    def _parse_unary(self) -> Any:
        first = self._curr
        made = super()._parse_unary()
        return self._placed(made, first) if isinstance(made, exp.Unary) and type(made) is not exp.Paren else made

    def _parse_field(self, any_token: bool = False, tokens: Any = None, anonymous_func: bool = False) -> Any:
        # behind a point there are fields, no functions; sqlglot reads f(1).f(1).f(1)... in quadratic time
        called = self._next.token_type == TokenType.L_PAREN or self._curr.token_type == TokenType.CASE
        if anonymous_func and called:
            self.fail(f"'{self._prev.text}' can't stand before a function")
        return super()._parse_field(any_token, tokens, anonymous_func)

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        # Spark takes CHAR for text of any length; here it is a type of its own, of one character
        first, place = self._curr, self._index + 1
        made = super()._parse_types(*args, **kwargs)
        size = "".join(token.text for token in self._tokens[place : self._index])
        if isinstance(made, exp.DataType) and first.token_type == TokenType.CHAR and size in ("", "(1)"):
            return exp.DataType(this=exp.DType.CHAR)
        return made

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call with the right number of arguments, which sqlglot's builders of functions don't look at."""
        first = self._curr
        if first.text.lower() in ARITY and self._next.token_type == TokenType.L_PAREN:
            problem = arity_problem(first.text, self._count_arguments(self._index + 2))
            if problem:
                self.fail(problem, token=first)
        try:
            return self._placed(super()._parse_function_call(*args, **kwargs), first)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, ParseError):
                raise
            self.fail(f"{first.text} can't take these arguments", token=first)

    def _count_arguments(self, place: int) -> int:
        """How many arguments stand between the parenthesis before `place` and the one that closes it."""
        if self._tokens[place].token_type == TokenType.R_PAREN:
            return 0
        depth, commas = 0, 0
        for token in self._tokens[place:]:
            kind = token.token_type
            if kind in _OPENING:
                depth += 1
            elif kind in _CLOSING:
                if depth == 0:
                    break
                depth -= 1
            commas += kind == TokenType.COMMA and depth == 0
        return commas + 1

    def _parse_bitwise(self) -> Any:
        """Shifts before & before ^ before |, as Spark SQL has it; sqlglot reads them all from left to right.

        Operands of mixed operators are put in parentheses, because engines differ here.
        """
        operands, operators = [self._parse_term()], []
        while True:
            place = self._index
            kind = self._bitwise_operator()
            if kind is None:
                break
            if operands[0] is None:
                self._retreat(place)
                self.fail_expecting("an expression")
            operators.append(kind)
            operands.append(self._operand())
        return _by_level(operands, operators) if operators else operands[0]

    def _bitwise_operator(self) -> type[exp.Expr] | None:
        if self._match(TokenType.DPIPE):
            return exp.DPipe
        if self._match_pair(TokenType.LT, TokenType.LT):
            return exp.BitwiseLeftShift
        if self._match_pair(TokenType.GT, TokenType.GT):
            return exp.BitwiseRightShift
        if self._match_set(self.BITWISE):
            kind: type[exp.Expr] = self.BITWISE[self._prev.token_type]
            return kind
        return None

    def _operand(self) -> exp.Expr:
        operand: exp.Expr | None = self._parse_term()
        if operand is None:
            self.fail_expecting("an expression")
        return operand


def _is_known(node: exp.Expr) -> bool:
    if type(node) in _LEAVES:
        return True
    if isinstance(node, exp.In):
        return bool(node.expressions)
    if isinstance(node, exp.DataTypeParam):
        return not node.expression
    if isinstance(node, exp.DataType):
        return not node.expressions or node.this in _SIZED
    if isinstance(node, exp.Interval):
        return isinstance(node.this, exp.Literal) and unit_of(node.text("unit")) is not None
    if isinstance(node, exp.Order):
        return isinstance(node.parent, exp.WithinGroup)
    if isinstance(node, exp.Dot):
        return isinstance(node.this, exp.Column | exp.Dot | exp.Func | exp.Paren)
    return type(node) in SYNTAX


def _by_level(operands: list[Any], operators: list[type[exp.Expr]]) -> exp.Expr:
    for level in BITWISE:
        left, kept = operands[:1], []
        for kind, operand in zip(operators, operands[1:], strict=True):
            if kind in level:
                left[-1] = _joined(kind, left[-1], operand)
            else:
                left.append(operand)
                kept.append(kind)
        operands, operators = left, kept
    tree: exp.Expr = operands[0]
    return tree


def _joined(kind: type[exp.Expr], left: Any, right: Any) -> exp.Expr:
    left = left if type(left) is kind else _apart(left)
    if kind is exp.DPipe:
        return exp.DPipe(this=left, expression=_apart(right), safe=True)
    return kind(this=left, expression=_apart(right))


def _apart(operand: Any) -> Any:
    levels = tuple(kind for level in BITWISE for kind in level)
    return exp.Paren(this=operand) if isinstance(operand, levels) else operand
