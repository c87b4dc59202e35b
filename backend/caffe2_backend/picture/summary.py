"""What a model is, in numbers and names: inputs and outputs, operators by type, parameters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir as ir

from caffe2_backend.picture.onnx_model import every_graph, read_onnx
from caffe2_bridge.control import count_operators
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.storage import AnyPath


@dataclass(frozen=True)
class Weight:
    """A parameter: its name, dtype and shape, and its size in bytes."""

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
    weights: Sequence[Weight]

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
    return _summarize_net(model) if isinstance(model, Model) else summarize_onnx(read_onnx(model), str(model))


def _summarize_net(model: Model) -> Summary:
    weights = [Weight(p.name, p.dtype.name, p.shape, p.size * p.dtype.itemsize) for p in model.init.parameters.values()]
    title = f"{model.source or 'model'}: {NetView(model.predict_net).name}"
    return Summary(title, model.inputs, model.outputs, *count_operators(model.predict_net), weights)


def summarize_onnx(model: onnx.ModelProto, source: str = "model") -> Summary:
    """Summarize an ONNX model that was read from a source."""
    graph, *bodies = every_graph(model.graph)
    weights = [_weight(tensor) for part in (graph, *bodies) for tensor in part.initializer]
    names = {weight.name for weight in weights}
    inputs = [_described(value) for value in graph.input if value.name not in names]
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    return Summary(
        f"{source}: {graph.name} ({opsets})", inputs, [_described(value) for value in graph.output],
        Counter(node.op_type for node in graph.node),
        Counter(node.op_type for body in bodies for node in body.node), weights,
    )  # fmt: skip


def counted(size: int) -> str:
    """Return a number of bytes as text; of one of more than 64 bits, which no file has, only that it is so large."""
    return f"{size:,}" if size < 1 << 64 else "2^64 or more"


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


def _weight(tensor: onnx.TensorProto) -> Weight:
    try:
        dtype = ir.DataType(tensor.data_type)
    except ValueError:  # a newer type than are known: nor is its size
        return Weight(tensor.name, _type_name(tensor.data_type), tensor.dims, 0)
    if dtype == ir.DataType.STRING:
        return Weight(tensor.name, "string", tensor.dims, sum(map(len, tensor.string_data)))
    return Weight(tensor.name, dtype.name.lower(), tensor.dims, -(-math.prod(tensor.dims) * dtype.bitwidth // 8))
