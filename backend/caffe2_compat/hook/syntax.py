"""Rewrites of syntax trees, for what NumPy refuses and no regular expression finds; nodes keep their locations."""

from __future__ import annotations

import ast
from typing import Final

from caffe2_compat.hook.compat import NAME, array, calculate, convert, elements, single

_NUMPY: Final = ("np", "numpy")
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_NUMBERS: Final = ("int", "float")


class _Rewriter(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Rewrite ``a[i] = x`` to ``elements(a)[i] = x``: NumPy 2.4 refuses an array with one element as an element."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = _call(node.value, elements.__name__, node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite calls that NumPy of today refuses, or whose results it changed.

        ``np.sum(x for ...)`` becomes Python's sum, as NumPy 2.4 refuses generators; ``int(a)`` and ``float(a)`` become
        ``int(single(a))``, as it refuses arrays with one element; ``np.array`` and ``dtype.type`` wrap integers out of
        bounds again.
        """
        self.generic_visit(node)
        if not node.keywords and _types(node.args) == [ast.GeneratorExp] and _is_of_numpy(node.func, "sum"):
            node.func = _located(_name("builtins", "sum"), node.func)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "type" and len(node.args) == 1:
            return _call(node, convert.__name__, node.func, *node.args)
        elif _is_of_numpy(node.func, "array"):
            node.func = _located(_name(array.__name__), node.func)
        elif isinstance(node.func, ast.Name) and node.func.id in _NUMBERS and len(node.args) == 1:
            (value,) = node.args
            if not isinstance(value, ast.Constant | ast.Starred):
                node.args = [_call(value, single.__name__, value)]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Rewrite arithmetic, unless an operand is a text or a list: NumPy 2 promotes scalars and arrays otherwise."""
        self.generic_visit(node)
        if not isinstance(node.op, _ARITHMETIC) or _is_text_or_list(node.left) or _is_text_or_list(node.right):
            return node
        return _call(node, calculate.__name__, ast.Constant(type(node.op).__name__), node.left, node.right)


def _is_text_or_list(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, int | float)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def _types(nodes: list[ast.expr]) -> list[type[ast.expr]]:
    return [type(node) for node in nodes]


def _is_of_numpy(function: ast.expr, name: str) -> bool:
    """Whether a function is NumPy's of this name."""
    return (
        isinstance(function, ast.Attribute)
        and function.attr == name
        and isinstance(function.value, ast.Name)
        and function.value.id in _NUMPY
    )


def _name(*path: str) -> ast.expr:
    """Return the expression of something of the module ``compat``."""
    found: ast.expr = ast.Name(NAME, ast.Load())
    for name in path:
        found = ast.Attribute(found, name, ast.Load())
    return found


def _call(place: ast.expr, name: str, *arguments: ast.expr) -> ast.expr:
    """Return a call of a function of the module ``compat``, at the location of another expression."""
    return _located(ast.Call(_name(name), list(arguments), []), place)


def _located(node: ast.expr, place: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def rewrite_syntax(tree: ast.Module) -> ast.Module:
    """Apply all rewrites to a syntax tree."""
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten
