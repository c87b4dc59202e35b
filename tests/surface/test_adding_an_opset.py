"""docs/adding-an-opset.md lists every place that knows types of ONNX operators."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import onnx
import pytest
from support.paths import PACKAGES, ROOT

OPERATORS: Final = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}
PLACES: Final = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "adding-an-opset.md").read_text("utf-8"), re.MULTILINE)
# Tables of types of Caffe2's operators, of which many have the names of ONNX's.
OF_CAFFE2: Final = (
    "backend/caffe2_backend/emit", "backend/caffe2_backend/lowering/emitter.py", "backend/caffe2_compat",
    "backend/caffe2_validation/inputs", "frontend/caffe2_frontend/input_shapes",
    "frontend/caffe2_frontend/input_types.py", "frontend/caffe2_frontend/ops",
)  # fmt: skip
FEWEST: Final = 3  # names in what counts as a table


def names(node: ast.AST) -> list[str]:
    """Return the texts in a set, list or tuple, or among the keys of a dict; those of pairs, too."""
    found: list[ast.expr | None] = []
    if isinstance(node, ast.Dict):
        found += node.keys
    elif isinstance(node, ast.Set | ast.List | ast.Tuple):
        found += node.elts
    inner = [each for part in found for each in (part.elts if isinstance(part, ast.Tuple) else [part])]
    return [each.value for each in inner if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def tables(path: Path) -> Iterator[int]:
    """Yield the lines of a module's tables of ONNX operators: most of their names are of such."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        found = names(node)
        known = sum(name in OPERATORS for name in found)
        if known >= FEWEST and 2 * known >= len(found):
            yield node.lineno


def is_in(path: Path, places: tuple[str, ...] | list[str]) -> bool:
    return any(path.is_relative_to(ROOT / place) for place in places)


@pytest.mark.parametrize("place", PLACES)
def test_a_place_knows_operators(place: str) -> None:
    where = ROOT / place
    assert where.exists()
    modules = [where] if where.is_file() else list(where.rglob("*.py"))
    assert any(name in path.read_text("utf-8") for path in modules for name in OPERATORS)


def test_no_table_stands_elsewhere() -> None:
    packages = [folder for name, folder in PACKAGES.items() if name not in {"bridge", "pytorch"}]
    paths = [path for folder in packages for path in folder.rglob("*.py") if not is_in(path, [*PLACES, *OF_CAFFE2])]
    assert len(paths) > 100
    assert not [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in tables(path)]


def test_a_table_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('A = frozenset({"Relu", "Tanh", "Sigmoid"})\nB = {"Relu": 1, "alpha": 2}\nC = [("Add", "Mul")]\n')
    assert list(tables(module)) == [1]
