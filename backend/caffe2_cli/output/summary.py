"""A model in a few tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir
from rich.table import Table

from caffe2_backend.picture.onnx_model import every_graph, read_onnx
from caffe2_bridge import Model
from caffe2_bridge.control import count_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.storage import AnyPath
from caffe2_cli.output.tables import cell

_SHOWN = 20


@dataclass(frozen=True)
class _Weight:
    name: str
    type: str
    shape: Sequence[int]
    size: int


@dataclass(frozen=True)
class Summary:
    """What a model is: its title, inputs and outputs as text, operators by type (those of bodies apart), parameters."""

    title: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    outer: Counter[str]
    inner: Counter[str]
    weights: Sequence[_Weight]

    def tables(self) -> list[Table]:
        """Return tables of inputs and outputs, of operators, and of the largest parameters."""
        return [
            _interface(self.title, self.inputs, self.outputs),
            _operators(self.outer, self.inner),
            _parameters(self.weights),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON: all parameters."""
        return {
            "title": self.title,
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "operators": {name: [self.outer[name], self.inner[name]] for name in sorted(self.outer | self.inner)},
            "parameters": [{**vars(weight), "shape": list(weight.shape)} for weight in self.weights],
        }


def summarize(model: Model | AnyPath) -> Summary:
    """Summarize a Caffe2 model, or the ONNX model in a file. Raises NetFormatError where that holds none."""
    return _summarize_net(model) if isinstance(model, Model) else _summarize_onnx(model)


def _summarize_net(model: Model) -> Summary:
    weights = [
        _Weight(p.name, p.dtype.name, p.shape, p.size * p.dtype.itemsize) for p in model.init.parameters.values()
    ]
    title = f"{model.source or 'model'}: {NetView(model.predict_net).name}"
    return Summary(title, model.inputs, model.outputs, *count_operators(model.predict_net), weights)


def _summarize_onnx(path: AnyPath) -> Summary:
    model = read_onnx(path)
    graph, *bodies = every_graph(model.graph)
    weights = [_weight(tensor) for part in (graph, *bodies) for tensor in part.initializer]
    names = {weight.name for weight in weights}
    inputs = [_described(value) for value in graph.input if value.name not in names]
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    return Summary(
        f"{path}: {graph.name} ({opsets})", inputs, [_described(value) for value in graph.output],
        Counter(node.op_type for node in graph.node),
        Counter(node.op_type for body in bodies for node in body.node), weights,
    )  # fmt: skip


def _described(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    kind = _type_name(tensor.elem_type) if tensor.elem_type else ""
    dims = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    shape = f"[{', '.join(dims)}]" if tensor.HasField("shape") else ""
    return f"{value.name}  {kind}{shape}".rstrip()


def _type_name(data_type: int) -> str:
    try:
        return ir.DataType(data_type).name.lower()
    except ValueError:  # a newer type than are known
        return f"type {data_type}"


def _weight(tensor: onnx.TensorProto) -> _Weight:
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:  # a newer type than are known: nor is its size
        return _Weight(tensor.name, _type_name(tensor.data_type), tensor.dims, 0)
    if dtype == ir.DataType.STRING:
        return _Weight(tensor.name, "string", tensor.dims, sum(map(len, tensor.string_data)))
    return _Weight(tensor.name, dtype.name.lower(), tensor.dims, -(-math.prod(tensor.dims) * dtype.bitwidth // 8))


def _counted(size: int) -> str:
    """Return a number of bytes as text; of one of more than 64 bits, which no file has, only that it is so large."""
    return f"{size:,}" if size < 1 << 64 else "2^64 or more"


def _interface(title: str, inputs: Sequence[str], outputs: Sequence[str]) -> Table:
    table = Table("", "blobs", title=cell(title), title_justify="left")
    table.add_row("inputs", cell("\n".join(inputs)))
    table.add_row("outputs", cell("\n".join(outputs)))
    return table


def _operators(outer: Counter[str], inner: Counter[str]) -> Table:
    table = Table("operator", "in the net", "in bodies", title=f"{outer.total()} operators", title_justify="left")
    for name in sorted(outer | inner):
        table.add_row(cell(name), str(outer[name] or ""), str(inner[name] or ""))
    return table


def _parameters(weights: Sequence[_Weight]) -> Table:
    ordered = sorted(weights, key=lambda weight: -weight.size)
    total = sum(weight.size for weight in ordered)
    table = Table(
        "parameter",
        "type",
        "shape",
        "bytes",
        title=f"{len(ordered)} parameters, {_counted(total)} bytes",
        title_justify="left",
    )
    for weight in ordered[:_SHOWN]:
        table.add_row(cell(weight.name), weight.type, " x ".join(map(str, weight.shape)), _counted(weight.size))
    if len(ordered) > _SHOWN:
        table.add_row(f"and {len(ordered) - _SHOWN} more", "", "", "")
    return table
