"""Rewrite assignments of arrays with one element to an element of an array, which NumPy 2.4 refuses."""

from __future__ import annotations

import ast

from caffe2_backend.caffe2_python.hook.compat import NAME, elements


class _Rewriter(ast.NodeTransformer):
    """Rewrites ``a[i] = x`` to ``elements(a)[i] = x``, also with several targets and with operators."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Store):
            module = ast.Name(NAME, ast.Load())
            call = ast.Call(ast.Attribute(module, elements.__name__, ast.Load()), [node.value], [])
            node.value = ast.copy_location(call, node.value)
            ast.fix_missing_locations(node.value)
        return node


def rewrite_assignments(tree: ast.Module) -> ast.Module:
    """Rewrite all assignments to elements; nodes keep their locations."""
    rewritten: ast.Module = _Rewriter().visit(tree)
    return rewritten
