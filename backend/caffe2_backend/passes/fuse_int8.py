"""Replace quantized parts of a model by Caffe2's Int8 operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.int8.elementwise import channels_last, elementwise_nodes
from caffe2_backend.int8.int8_operators import Candidate, Int8Operator, Parameter, find_operator, output_arguments
from caffe2_backend.int8.quantized_values import Int8Tensor, is_dequantize, is_quantize, known, quantization_of
from caffe2_backend.int8.spread import spread_quantization
from caffe2_backend.restore.restored_nodes import DOMAIN, restored_node
from caffe2_backend.state import Import
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.types import Quantization

_IMAGE_RANK: Final = 4


class FuseInt8(InPlacePass[Import]):
    """Make Int8 tensors of quantized values, and Int8 operators of the nodes between them.

    A node between DequantizeLinear and QuantizeLinear becomes an Int8 operator where Caffe2 has one whose results
    differ by a step at most. Any other computes floats between Int8Dequantize and Int8Quantize. Images have their
    channels last as Int8 tensors. Only where the option ``int8`` asks for it, and in the main graph.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"constants", "shapes"})
    ensures: ClassVar[frozenset[str]] = frozenset({"int8"})

    def __call__(self, state: Import) -> None:
        """Replace the quantized parts of the model; notes the Int8 parameters in ``quantized``."""
        if not state.options.int8:
            return
        fusing = _Fusing(state.model.graph, state.quantized)
        spread_quantization(state.model.graph, fusing.fresh)
        for node in list(state.model.graph):
            if is_quantize(node):
                fusing.quantize(node)
            elif is_dequantize(node):
                fusing.dequantize(node)
        fusing.finish()


class _Fusing:
    def __init__(self, graph: ir.Graph, quantized: dict[str, Quantization]) -> None:
        self.graph = graph
        self.quantized = quantized
        self.tensors: dict[ir.Value, Int8Tensor] = {}  # by the bytes of the model
        self.reals: dict[ir.Value, Int8Tensor] = {}  # by the floats of the model
        self.floats: dict[ir.Value, ir.Value] = {}  # with the channels last, by the floats of the model
        self.replaced: list[ir.Node] = []
        self.made: list[ir.Node] = []
        values = (*graph.inputs, *graph.initializers.values(), *(value for node in graph for value in node.outputs))
        self.taken = {str(value.name) for value in values}

    def quantize(self, node: ir.Node) -> None:
        """Make an Int8 tensor of what a QuantizeLinear quantizes, if only DequantizeLinear nodes read it."""
        how, (x, quantized) = quantization_of(node), (node.inputs[0], node.outputs[0])
        if how is None or x is None or x.shape is None or x.dtype != ir.DataType.FLOAT or quantized.is_graph_output():
            return
        if not all(is_dequantize(use.node) and quantization_of(use.node) == how for use in quantized.uses()):
            return
        found = self._operator(x, how)
        if found is None:
            image = self._image(x, node) if len(x.shape) == _IMAGE_RANK else x
            made = self._emit("Int8Quantize", [image], node, output_arguments(how))
        else:
            operands = [*(tensor.value for tensor in found.tensors), *map(self._parameter, found.parameters)]
            made = self._emit(found.type, operands, node, found.args)
            if found.needs_relu:
                made = self._emit("Int8Relu", [made], node, output_arguments(how))
        self.tensors[quantized] = Int8Tensor(made, how)
        self.replaced.append(node)

    def _image(self, x: ir.Value, before: ir.Node) -> ir.Value:
        """Return floats with their channels last: computed of such ones, where they are computed element by element."""
        images = {real for real in self.reals if real.shape is not None and len(real.shape) == _IMAGE_RANK}
        nodes = elementwise_nodes(x, images)
        for node in nodes:
            for index, operand in enumerate(node.inputs):
                if operand is not None and operand in images:
                    node.replace_input_with(index, self._floats(operand))
            node.outputs[0].shape = channels_last(node.outputs[0].shape)
        return x if nodes else self._emit("NCHW2NHWC", [x], before, {})

    def _floats(self, real: ir.Value) -> ir.Value:
        """Return the floats of an image with its channels last."""
        if real not in self.floats:
            producer = real.producer()
            assert producer is not None  # DequantizeLinear
            made = self.floats[real] = self._emit("Int8Dequantize", [self.reals[real].value], producer, {})
            made.type, made.shape = real.type, channels_last(real.shape)
        return self.floats[real]

    def dequantize(self, node: ir.Node) -> None:
        """Note which Int8 tensor a DequantizeLinear converts to floats."""
        quantized = node.inputs[0]
        if quantized is not None and quantized in self.tensors:
            self.reals[node.outputs[0]] = self.tensors[quantized]
            self.replaced.append(node)

    def _operator(self, x: ir.Value, how: Quantization) -> Int8Operator | None:
        """Return the Int8 operator that computes a float and quantizes it, from the nodes before it."""
        relu = False
        while (node := x.producer()) is not None and node.graph is self.graph and _is_read_once(x):
            first = node.inputs[0] if node.inputs else None
            if first is None or first in self.reals or node.domain or node.op_type not in ("Relu", "Clip"):
                return find_operator(Candidate(node, how, relu, self.reals))
            low, high = (0.0, np.inf) if node.op_type == "Relu" else _bounds(node)
            lowest, highest = (how.scale * (byte - how.zero_point) for byte in (0, 255))
            is_idle = low <= lowest + how.scale / 2
            if not (high >= highest - how.scale / 2 and (is_idle or low == 0)):
                return None  # bounds within the range of the bytes, or unknown
            relu, x = relu or not is_idle, first
        return None

    def _parameter(self, parameter: Parameter) -> ir.Value:
        tensor = ir.Tensor(parameter.array)
        value = ir.Value(
            name=self.fresh(parameter.name), type=ir.TensorType(tensor.dtype), shape=ir.Shape(parameter.array.shape),
            const_value=tensor,
        )  # fmt: skip
        self.graph.register_initializer(value)
        self.quantized[str(value.name)] = parameter.how
        return value

    def _emit(self, op_type: str, operands: Sequence[ir.Value], before: ir.Node, args: Mapping[str, Any]) -> ir.Value:
        """Insert an operator of Caffe2 with one output."""
        made = ir.Value(name=self.fresh(f"{before.outputs[0].name}/{op_type}"))
        names = [f"x{index}" for index in range(len(operands))]
        definition = make_operator(op_type, names, ["y"], args)
        node = restored_node([definition], operands, [made])
        self.graph.insert_before(before, node)
        self.made.append(node)
        return made

    def fresh(self, base: str) -> str:
        """Return a name that no other value has."""
        name, count = base, 1
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        return name

    def finish(self) -> None:
        """Convert back to floats what other nodes read, and remove the nodes that no others read any more."""
        for real, tensor in self.reals.items():
            if _is_read(real):
                self._restore(real, tensor)
        waiting = [*self.made, *self.replaced]
        while waiting:
            node = waiting.pop()
            if node.graph is not self.graph or any(map(_is_read, node.outputs)):
                continue
            operands = [value for value in node.inputs if value is not None]
            self.graph.remove(node, safe=True)
            for value in operands:
                producer = value.producer()
                if producer is not None:
                    waiting.append(producer)
                elif value.is_initializer() and not _is_read(value):
                    self.graph.initializers.pop(str(value.name), None)
        self.graph.opset_imports[DOMAIN] = 1

    def _restore(self, real: ir.Value, tensor: Int8Tensor) -> None:
        """Let the readers of a float read what Int8Dequantize makes of a tensor."""
        node = real.producer()
        assert node is not None  # DequantizeLinear
        made = self._emit("Int8Dequantize", [tensor.value], node, {})
        if real.shape is not None and len(real.shape) == _IMAGE_RANK:
            made = self._emit("NHWC2NCHW", [made], node, {})
        made.type, made.shape, name = real.type, real.shape, real.name
        ir.convenience.replace_all_uses_with(real, made, replace_graph_outputs=True)
        real.name, made.name = None, name


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _is_read_once(value: ir.Value) -> bool:
    return len(value.uses()) == 1 and not value.is_graph_output()


def _bounds(node: ir.Node) -> tuple[float, float]:
    """Return the bounds of a Clip, NaN where they are not known."""
    bounds = []
    for index, default in ((1, -np.inf), (2, np.inf)):
        value = node.inputs[index] if index < len(node.inputs) else None
        array = known(value)
        bounds.append(default if value is None else float(array.item()) if array is not None else np.nan)
    return bounds[0], bounds[1]
