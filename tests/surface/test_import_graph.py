"""Modules import each other without cycles, counting imports for types and imports inside of functions."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import pytest
from support.modules import modules, parse_modules


def imported(tree: ast.AST, known: dict[str, Path]) -> set[str]:
    """Return the modules that a module imports, anywhere in it; a name imported from a package may be a module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found.update(inner & known.keys())
            if inner - known.keys():
                found.add(node.module)
    return found & known.keys()


def graph() -> nx.DiGraph[str]:
    known, trees = modules(), parse_modules()
    result: nx.DiGraph[str] = nx.DiGraph()
    result.add_nodes_from(known)
    for name, tree in trees.items():
        result.add_edges_from((name, other) for other in imported(tree, known) if other != name)
    return result


def test_modules_import_each_other_without_cycles() -> None:
    cycles = [sorted(part) for part in nx.strongly_connected_components(graph()) if len(part) > 1]
    assert not cycles, f"import cycles: {cycles}"


def test_the_frontend_imports_nothing_for_types_alone() -> None:
    guarded = [name for name, path in modules(["frontend"]).items() if "TYPE_CHECKING" in path.read_text("utf-8")]
    assert not guarded


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from p import b", {"p.b"}),
        ("from p import f", {"p"}),
        ("from p.a import g", {"p.a"}),
        ("import p.b", {"p.b"}),
        ("def f():\n    from p import a", {"p.a"}),
        ("if TYPE_CHECKING:\n    from p.a import T", {"p.a"}),
    ],
)
def test_imports_are_found_wherever_they_are(source: str, wanted: set[str]) -> None:
    known = {name: Path() for name in ("p", "p.a", "p.b")}
    assert imported(ast.parse(source), known) == wanted
