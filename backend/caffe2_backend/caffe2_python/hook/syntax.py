"""Rewrites of syntax trees, for what NumPy refuses and no regular expression finds; nodes keep their locations."""

from __future__ import annotations

import ast

from caffe2_backend.caffe2_python.hook.compat import NAME, elements

_NUMPY = ("np", "numpy")


class _Rewriter(ast.NodeTransformer):
    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Rewrite ``a[i] = x`` to ``elements(a)[i] = x``: NumPy 2.4 refuses an array with one element as an element."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            node.value = _located(ast.Call(_name(elements.__name__), [node.value], []), node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite ``np.sum(x for ...)`` to Python's sum: NumPy 2.4 refuses generators."""
        self.generic_visit(node)
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == "sum"
            and isinstance(function.value, ast.Name)
            and function.value.id in _NUMPY
            and [type(argument) for argument in node.args] == [ast.GeneratorExp]
            and not node.keywords
        ):
            node.func = _located(_name("builtins", "sum"), function)
        return node


def _name(*path: str) -> ast.expr:
    """Something of the module ``compat``."""
    found: ast.expr = ast.Name(NAME, ast.Load())
    for name in path:
        found = ast.Attribute(found, name, ast.Load())
    return found


def _located(node: ast.expr, place: ast.expr) -> ast.expr:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def rewrite_syntax(tree: ast.Module) -> ast.Module:
    """Apply all rewrites to a syntax tree."""
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten
