"""The operators whose conversion may differ from another commit's: what to check where nothing says what is wrong.

A definition is a name that a module binds outermost: a function, a class, a constant. One uses another if its source
names it. What differs is found by definition, as a file of helpers serves hundreds of operators.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import networkx as nx
from support.modules import modules, parse_modules
from support.paths import ROOT

from caffe2_frontend.ops import converters

Definition = tuple[str, str]  # the module, and the name in it
_BESIDE: Final = ""  # the name of what a module does besides defining names
_EXPORT: Final = "caffe2_frontend.pipeline"
_CONVERTING: Final = ("bridge", "frontend")


def changed_operators(commit: str) -> set[str]:
    """Return the operator types whose converters differ from a commit's or use what does; all where all exports do.

    Raises:
        ValueError: git does not know the commit.
    """
    paths, trees = modules(_CONVERTING), parse_modules(_CONVERTING)
    uses = uses_of(trees)
    touched = {ROOT / name for name in _git("diff", "--name-only", commit, "--").splitlines()}
    touched |= {ROOT / name for name in _git("ls-files", "--others", "--exclude-standard").splitlines()}
    changed = [_differing(name, path, trees[name], commit) for name, path in paths.items() if path in touched]
    differing = {definition for found in changed for definition in found}
    users = differing.union(*(nx.ancestors(uses, definition) for definition in differing))
    if any(module == _EXPORT for module, _ in users):
        return set(converters())
    return {op_type for op_type, converter in converters().items() if _definition(converter) in users}


def definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return the outermost statements of a module by the names that they bind, imports left out."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign() | ast.AnnAssign():
                names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_bound(node)]
            case ast.Import() | ast.ImportFrom():
                names = []
            case _:
                names = [_BESIDE]
        for name in names:
            found.setdefault(name, []).append(statement)
    return found


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def uses_of(trees: Mapping[str, ast.Module]) -> nx.DiGraph[Definition]:
    """Return the definitions of modules, with an edge from each to those that it names."""
    graph: nx.DiGraph[Definition] = nx.DiGraph()
    imports = _imports_of(trees)
    for module, tree in trees.items():
        own = definitions(tree)
        known = {name: (module, name) for name in own} | imports[module]
        for name, statements in own.items():
            graph.add_node((module, name))
            if _BESIDE in own and name != _BESIDE:
                graph.add_edge((module, name), (module, _BESIDE))  # such as a loop that registers converters
            named = {node.id for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name)}
            graph.add_edges_from(((module, name), known[other]) for other in named & known.keys() - {name})
    return graph


def _imports_of(trees: Mapping[str, ast.Module]) -> dict[str, dict[str, Definition]]:
    """Return the names that each module imports from others of these, followed through modules that pass them on."""
    direct = {
        module: {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and node.module in trees
            for alias in node.names
        }
        for module, tree in trees.items()
    }

    def origin(found: Definition) -> Definition:
        further = direct.get(found[0], {}).get(found[1], found)
        return found if further == found else origin(further)

    return {module: {name: origin(found) for name, found in names.items()} for module, names in direct.items()}


def _differing(module: str, path: Path, tree: ast.Module, commit: str) -> set[Definition]:
    """Return the definitions of a module whose source differs from that of a commit, comments and line breaks apart."""
    old = _git("show", f"{commit}:{path.relative_to(ROOT)}", missing="")
    before, now = definitions(ast.parse(old)), definitions(tree)
    return {(module, name) for name in now if _dumped(now[name]) != _dumped(before.get(name, []))}


def _dumped(statements: list[ast.stmt]) -> list[str]:
    return [ast.dump(statement) for statement in statements]


def _git(*words: str, missing: str | None = None) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607 - git
    if done.returncode and missing is None:
        raise ValueError(done.stderr.strip())
    return missing if done.returncode and missing is not None else done.stdout


def _definition(converter: object) -> Definition:
    function = inspect.unwrap(getattr(converter, "func", converter))  # type: ignore[arg-type] # of a partial one
    return function.__module__, function.__qualname__.partition(".")[0]
