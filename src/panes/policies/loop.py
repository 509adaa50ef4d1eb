"""Loops over plain arrays, written once: run as they are for few rows, compiled for many.

    @one_source(_helper)
    def sum_up(values): ...

    sum_up.worth(rows)(values)

Both forms are the same Python source over the same arrays, so that no state is ever converted. Numba is imported when
the first loop is compiled, and never by streams of few rows.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

import numpy as np

Function = Callable[..., Any]
#: Rows that plain loops look at in less time than it takes to import Numba.
FEW = 5_000
_known_to_numba: set[Function] = set()


class Loop:
    """One loop in its two forms. `parts`: functions that it calls.

    `inlined`: those of them whose body takes the place of `part(...)` and `x = part(...)` where the loop is compiled.
    Called for each row, they would spend more time on passing arrays than on their work.
    """

    def __init__(self, source: Function, parts: tuple[Function, ...], inlined: tuple[Function, ...]) -> None:
        self.source, self.parts, self.inlined = source, parts, inlined

    def worth(self, work: int, few: int | None = None) -> Function:
        """The form that is the quicker one for so many rows; `few`: where compiled ones begin, if not at FEW."""
        return self.compiled if work > (FEW if few is None else few) else self.plain

    def plain(self, *arrays: Any) -> Any:
        """As Python runs it. It sees memory of arrays, whose items it reads and writes in half the time."""
        return self.source(*[memoryview(a) if isinstance(a, np.ndarray) else a for a in arrays])  # type: ignore[arg-type]

    @property
    def is_compiled(self) -> bool:
        """Whether this process has paid for the compiled form."""
        return "compiled" in vars(self)

    @cached_property
    def compiled(self) -> Function:
        from numba import njit
        from numba.extending import register_jitable

        for each in (*self.parts, *self.inlined):
            if each not in _known_to_numba:
                register_jitable(each)
                _known_to_numba.add(each)
        return njit(cache=True)(_inlined(self.source, self.inlined) if self.inlined else self.source)


def one_source(*parts: Function, inlined: tuple[Function, ...] = ()) -> Callable[[Function], Loop]:
    """A loop of a function that Numba can compile, and of those that it calls."""
    return lambda source: Loop(source, parts, inlined)


def _inlined(source: Function, parts: tuple[Function, ...]) -> Function:
    """The function with the bodies of its parts in place of their calls."""
    assert isinstance(source, FunctionType)
    made = _definition(source)
    made.decorator_list, made.returns = [], None
    for argument in made.args.args:
        argument.annotation = None
    for part in parts:
        _Inliner(_definition(part)).visit(made)
    tree = ast.fix_missing_locations(ast.Module([made], []))
    ast.increment_lineno(tree, source.__code__.co_firstlineno - 1)
    module = compile(tree, source.__code__.co_filename, "exec")
    (code,) = (each for each in module.co_consts if isinstance(each, CodeType))
    return FunctionType(code, source.__globals__, source.__name__)


def _definition(function: Function) -> ast.FunctionDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(found, ast.FunctionDef)
    return found


class _Inliner(ast.NodeTransformer):
    """Puts the body of a function, which returns at its end or not at all, in place of its calls."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.name, self.parameters = function.name, [each.arg for each in function.args.args]
        documented = ast.get_docstring(function) is not None
        self.body = ast.unparse(ast.Module(function.body[documented:], []))
        stored = (n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.assigned = {name.id for name in stored}

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | list[ast.stmt]:
        return self._in_place(node.value, node.targets[0]) or node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | list[ast.stmt]:
        return self._in_place(node.value, None) or node

    def _in_place(self, call: ast.expr, target: ast.expr | None) -> list[ast.stmt]:
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == self.name):
            return []
        # names and constants are used as they are: another name of an array would have to be counted
        named: dict[str, ast.expr] = {name: ast.Name(f"{self.name}_{name}") for name in self.assigned}
        made: list[ast.stmt] = []
        for parameter, given in zip(self.parameters, call.args):
            if isinstance(given, ast.Name | ast.Constant) and parameter not in self.assigned:
                named[parameter] = given
            else:
                named[parameter] = ast.Name(f"{self.name}_{parameter}")
                made.append(ast.Assign([ast.Name(f"{self.name}_{parameter}", ast.Store())], given))
        made += _Renamed(named).visit(ast.parse(self.body)).body
        if target is not None:
            last = made.pop()
            assert isinstance(last, ast.Return)
            assert last.value is not None
            made.append(ast.Assign([target], last.value))
        return made


class _Renamed(ast.NodeTransformer):
    """Other names, or constants, for names."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        named = self.names.get(node.id, node)
        return ast.Name(named.id, node.ctx) if isinstance(named, ast.Name) else named
