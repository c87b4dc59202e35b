"""Rewrites of syntax for what NumPy refuses today, and what is left as it is."""

from __future__ import annotations

import ast

import pytest

from caffe2_compat.hook.compat import NAME
from caffe2_compat.hook.syntax import rewrite_syntax


def rewritten(source: str) -> str:
    return ast.unparse(rewrite_syntax(ast.parse(source))).replace(f"{NAME}.", "c.")


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("a[i] = x", "c.elements(a)[i] = x"),
        ("a[i] += a[j]", "c.elements(a)[i] += a[j]"),
        ("np.sum((x for x in a))", "c.builtins.sum((x for x in a))"),
        ("numpy.array(a, t)", "c.array(a, t)"),
        ("a.dtype.type(3)", "c.convert(a.dtype.type, 3)"),
        ("int(a)", "int(c.single(a))"),
        ("float(int(a))", "float(c.single(int(c.single(a))))"),
        ("a * b", "c.calculate('Mult', a, b)"),
        ("a + b - 1", "c.calculate('Sub', c.calculate('Add', a, b), 1)"),
    ],
)
def test_what_is_rewritten(source: str, result: str) -> None:
    assert rewritten(source) == result


@pytest.mark.parametrize(
    "source",
    ["a[i]", "np.sum(a)", "sum((x for x in a))", "int(3)", "int(*a)", "int(a, 16)", "'%d' % a", "[0] * n", "a @ b"],
)
def test_what_stays(source: str) -> None:
    assert rewritten(source) == ast.unparse(ast.parse(source))


def test_nodes_keep_their_locations() -> None:
    tree = rewrite_syntax(ast.parse("\n\nx = a * b"))
    assert {node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr)} == {3}
