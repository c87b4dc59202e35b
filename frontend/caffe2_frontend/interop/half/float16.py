"""Models in half precision, by onnxruntime's converter, also where it alone gives no valid model.

onnxruntime's ``convert_float_to_float16`` converts operands, attributes and bodies. It adds the casts around nodes that
stay in float32 at the end of the main graph, one for each reader, also for nodes in bodies: they are put where they
belong here. It also needs all weights in the protobuf: here it gets them as inputs, and they are converted when the
model is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_frontend.interop.files.strip_weights import with_weights, without_weights
from caffe2_frontend.interop.half.float16_casts import move_casts
from caffe2_frontend.interop.half.float32_nodes import LARGEST, SMALLEST, beyond_range, float32_nodes
from caffe2_frontend.interop.inference.shape_inference import infer_shapes


@dataclass(frozen=True)
class Half:
    """A model in half precision.

    Attributes:
        model: the model.
        float32: the operator types of the nodes that stay in float32, and how many each.
        clamped: for each weight or constant with numbers beyond the range of float16, how many.
    """

    model: ir.Model
    float32: Mapping[str, int]
    clamped: Mapping[str, int]


def to_float16(model: ir.Model, *, keep_io: bool) -> Half:
    """Convert the float32 values of a model, in bodies too, to float16.

    Args:
        model: the model, which stays as it is.
        keep_io: whether float32 inputs and outputs stay float32.

    Raises:
        OptionError: onnxruntime, which has the converter, is not installed.
    """
    convert, convert_array = _converter()
    proto = without_weights(model)
    weights = {name for name in model.graph.initializers if any(name == value.name for value in proto.graph.input)}
    for index, node in enumerate(proto_nodes(proto.graph)):
        node.name = f"node_{index}"  # unique, as the list of nodes that stay in float32 needs it
    counts = {name: beyond_range(array) for name, array in _floats(model)}
    # A few tiny weights do no harm; small tensors are constants of formulas.
    arrays = ((name, array) for name, array in _floats(model) if counts[name])
    critical = [name for name, array in arrays if name not in weights or np.abs(array).max() > LARGEST]
    blocked = float32_nodes(proto, critical)
    types = {node.name: node.op_type for node in proto_nodes(proto.graph) if node.name in blocked}
    io = [value.name for value in (*proto.graph.input, *proto.graph.output) if value.name not in weights]
    proto = infer_shapes(proto)
    _split_constants(proto.graph, blocked)
    _forget_types_of_initializers(proto.graph)
    passed = _take_passed_on(proto.graph)
    half = convert(
        proto,
        disable_shape_infer=True,
        keep_io_types=io if keep_io else [],
        op_block_list=[],
        node_block_list=list(blocked),
        min_positive_val=SMALLEST,
        max_finite_val=LARGEST,
    )
    given = {value.name: value for value in half.graph.input}
    for index, name in passed:
        half.graph.output.insert(index, given[name])
    move_casts(half, weights)
    converted = with_weights(half, model)
    for value in converted.graph.initializers.values():
        tensor = value.const_value
        if tensor is not None and (tensor.dtype, value.dtype) == (ir.DataType.FLOAT, ir.DataType.FLOAT16):
            value.const_value = _half_tensor(tensor, convert_array)
    half_names = {name for name, value in converted.graph.initializers.items() if value.dtype == ir.DataType.FLOAT16}
    clamped = {name: count for name, count in counts.items() if count and name in half_names}
    return Half(converted, Counter(types.values()), clamped)


def _take_passed_on(graph: onnx.GraphProto) -> list[tuple[int, str]]:
    """Remove the outputs that are inputs: the converter would write a second value of each name."""
    inputs = {value.name for value in graph.input}
    passed = [(index, value.name) for index, value in enumerate(graph.output) if value.name in inputs]
    for index, _ in reversed(passed):
        del graph.output[index]
    return passed


def _split_constants(graph: onnx.GraphProto, blocked: Container[str]) -> None:
    """Give the nodes that stay in float32 their own copies of constants that others read too, which lose digits."""
    nodes = list(proto_nodes(graph))
    own = {name for node in nodes if node.name in blocked for name in node.input}
    others = {name for node in nodes if node.name not in blocked for name in node.input}
    shared, copies = own & others, dict[str, str]()
    for tensor in list(graph.initializer):
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name in shared:
            copy = graph.initializer.add()
            copy.CopyFrom(tensor)
            copy.name = copies[tensor.name] = f"{tensor.name}/float32"
    for node in nodes:
        for index, name in enumerate(node.input if node.name in blocked else ()):
            node.input[index] = copies.get(name, name)


def _forget_types_of_initializers(graph: onnx.GraphProto) -> None:
    """Remove what the graph says of initializers: the converter would believe that all of them become float16."""
    names = {tensor.name for tensor in graph.initializer}
    others = [info for info in graph.value_info if info.name not in names]
    del graph.value_info[:]
    graph.value_info.extend(others)


def _converter() -> tuple[Callable[..., onnx.ModelProto], Callable[..., Array]]:
    """Return onnxruntime's converters of models and of arrays."""
    try:
        from onnxruntime.transformers import float16
    except ImportError:
        raise OptionError(
            "fp16 needs onnxruntime, whose float16 converter it uses: pip install 'caffe2-bridge[cpu]'"
        ) from None
    return float16.convert_float_to_float16, float16.convert_np_to_float16


def _half_tensor(tensor: ir.TensorProtocol, convert: Callable[..., Any]) -> ir.LazyTensor:
    """Return the weight in float16, converted when it is read."""

    def load() -> ir.TensorProtocol:
        return ir.Tensor(np.asarray(convert(tensor.numpy(), SMALLEST, LARGEST)), dtype=ir.DataType.FLOAT16)

    return ir.LazyTensor(load, ir.DataType.FLOAT16, ir.Shape(tensor.shape.numpy()), name=tensor.name)


def _floats(model: ir.Model) -> Iterator[tuple[str, Array]]:
    """Yield the float32 weights and constants of the main graph that are not empty, read one by one."""
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.dtype == ir.DataType.FLOAT and tensor.size:
            yield name, tensor.numpy()
