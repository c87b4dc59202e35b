"""All families of converters, imported at once: for the index and for tests. Conversions go through the index."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from caffe2_bridge.registry import merge
from caffe2_frontend.lowering.family import Family

_ROOMS: Final = (
    "ops.control_flow",
    "ops.detection",
    "ops.feature",
    "ops.gradients.feature",
    "ops.gradients.nn",
    "ops.gradients.sequence",
    "ops.gradients.tensor",
    "ops.nn",
    "ops.quantized",
    "ops.sequence",
    "ops.tensor",
    "ops.training",
)
_MODULES: Final = ("ops.aten", "recurrent.gradient", "recurrent.network")


def families() -> dict[str, Family]:
    """Import every family; by its module, relative to ``caffe2_frontend``."""
    modules = [f"{room}.{name}" for room in _ROOMS for name in import_module(f"caffe2_frontend.{room}").FAMILIES]
    return {module: import_module(f"caffe2_frontend.{module}").family for module in (*_MODULES, *modules)}


def index_text() -> str:
    """Return the content of ``index.txt``. Raises ValueError for an operator type that two families register."""
    found = families()
    merge(found.values())
    rows = [(op_type, module, family.name) for module, family in found.items() for op_type in family.handlers]
    return "".join("\t".join(row) + "\n" for row in sorted(rows))
