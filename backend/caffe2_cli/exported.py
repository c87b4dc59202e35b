"""What is said of an exported model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import onnx_ir as ir

from caffe2_frontend.interop.metadata.origin import LOCATION_KEY, OP_KEY
from caffe2_frontend.interop.operators import RECURRENT

_FORMS: Final = (*RECURRENT, "Scan", "Loop")
_RECURRENT: Final = "RecurrentNetwork"


@dataclass(frozen=True)
class TensorText:
    """An input or output: its name, dtype, and dims, each a number, a name or ``?``."""

    name: str
    dtype: str
    dims: tuple[int | str, ...] | None

    def __str__(self) -> str:
        dims = "" if self.dims is None else f"[{','.join(map(str, self.dims))}]"
        return f"{self.name}: {self.dtype}{dims}"


@dataclass(frozen=True)
class ExportedModel:
    """What an exported model is, in short.

    Attributes:
        opset: the version of ONNX's own operators.
        inputs: the inputs that must be given.
        outputs: the outputs.
        recurrent: by location of a recurrent operator of the net, the ONNX operator that it became; ``unrolled`` for
            several that are none of these.
    """

    opset: int
    inputs: tuple[TensorText, ...]
    outputs: tuple[TensorText, ...]
    recurrent: Mapping[str, str]

    @classmethod
    def of(cls, model: ir.Model) -> ExportedModel:
        """Describe a model."""
        graph = model.graph
        weights = set(graph.initializers)
        return cls(
            model.opset_imports.get("", 0),
            tuple(_tensor(value) for value in graph.inputs if value.name not in weights),
            tuple(map(_tensor, graph.outputs)),
            _forms(ir.traversal.RecursiveGraphIterator(graph)),
        )

    def lines(self) -> list[str]:
        """Return what the command line says of it."""
        return [
            f"opset {self.opset}",
            *(f"input   {value}" for value in self.inputs),
            *(f"output  {value}" for value in self.outputs),
            *(f"{location}: {form}" for location, form in self.recurrent.items()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return {
            "opset": self.opset,
            "inputs": [vars(value) for value in self.inputs],
            "outputs": [vars(value) for value in self.outputs],
            "recurrent": dict(self.recurrent),
        }


def _tensor(value: ir.Value) -> TensorText:
    name = "?" if value.dtype is None else value.dtype.name.lower()
    dims = None if value.shape is None else tuple(d if isinstance(d, int) else d.value or "?" for d in value.shape)
    return TensorText(str(value.name), {"float": "float32", "double": "float64"}.get(name, name), dims)


def _forms(nodes: Iterable[ir.Node]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for node in nodes:
        if node.metadata_props.get(OP_KEY, "").startswith(_RECURRENT):
            location = node.metadata_props.get(LOCATION_KEY, "").partition(" > ")[0]
            found.setdefault(location, set()).add(node.op_type)
    return {location: next((form for form in _FORMS if form in types), "unrolled") for location, types in found.items()}
