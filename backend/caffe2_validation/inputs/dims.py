"""Open dims of an ONNX model's inputs: which are equal, and which are time and batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

import onnx
import onnx_ir as ir

from caffe2_backend.runtime.sessions.model_session import is_small
from caffe2_bridge.control import RecurrentNetwork, control_of
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.files.strip_weights import without_weights
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.operators import BROADCASTING, RECURRENT

Dim: TypeAlias = int | str
Shape: TypeAlias = Sequence[Dim]


class Dims:
    """The dims of a model's inputs, with one symbol for all dims that must be equal.

    A union-find over symbols: dims are united where operators require it, which are elementwise operators, matrix
    products, recurrent operators, the scanned inputs of a Scan, and its states with the body's new states. If the graph
    is the export of a net, the operands of the net's RecurrentNetworks are united as well.
    """

    def __init__(self, model: onnx.ModelProto, net: Model | None = None) -> None:
        self._parent: dict[str, Dim] = {}
        self._steps: set[str] = set()
        self._batch: set[str] = set()
        light = model if is_small(model) else without_weights(ir.from_proto(model))
        try:
            inferred = infer_shapes(light, data_prop=True)
        except onnx.shape_inference.InferenceError:
            inferred = light
        self._graph(inferred.graph, {})
        self._inputs = {value.name: _dims(value) for value in model.graph.input}
        if net is not None:
            known = {value.name: _dims(value) for value in inferred.graph.value_info} | self._inputs
            self._networks(NetView(net.predict_net), known)

    def of(self, name: str) -> list[Dim]:
        """Return the dims of an input: numbers, or the symbol of all dims that are equal."""
        return [self._find(dim) for dim in self._inputs[name]]

    def is_steps(self, symbol: str) -> bool:
        """Whether the dim is time: the first of a sequence."""
        return symbol in {self._find(s) for s in self._steps} or symbol == "T"

    def is_batch(self, symbol: str) -> bool:
        """Whether the dim is the batch: the second of a sequence."""
        return symbol in {self._find(s) for s in self._batch} or symbol == "N"

    @property
    def has_sequences(self) -> bool:
        """Whether the model has sequences: other inputs of three dims are then assumed to be [T,N,D], too."""
        return bool(self._steps)

    def _find(self, dim: Dim) -> Dim:
        while isinstance(dim, str) and dim in self._parent:
            dim = self._parent[dim]
        return dim

    def _equal(self, a: Dim, b: Dim) -> None:
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        if isinstance(a, str):
            self._parent[a] = b
        elif isinstance(b, str):
            self._parent[b] = a

    def _graph(self, graph: onnx.GraphProto, outer: Mapping[str, list[Dim]]) -> None:
        shapes = dict(outer)
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.tensor_type.HasField("shape") and (value.name not in shapes or not outer):
                shapes[value.name] = _dims(value)
        for tensor in graph.initializer:
            shapes[tensor.name] = list(tensor.dims)
        for node in graph.node:
            with suppress(IndexError, StopIteration, ValueError):  # a node that lacks what ONNX asks for says nothing
                self._node(node, shapes)

    def _node(self, node: onnx.NodeProto, shapes: dict[str, list[Dim]]) -> None:
        known = [shapes.get(name) for name in node.input]
        op_type = standard_type(node)
        if op_type in BROADCASTING:
            self._broadcast([s for s in known if s is not None])
        elif op_type == "MatMul" and known[0] and known[1]:
            self._equal(known[0][-1], known[1][-2 if len(known[1]) > 1 else 0])
        elif op_type in ("Conv", "ConvTranspose") and known[0] and known[1]:
            self._channels(node, known[0], known[1])
        elif op_type in RECURRENT and known[0] and len(known[0]) == 3:
            self._recurrent(known)
        elif op_type == "Scan":
            self._scan(node, known, shapes)
            return
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                self._graph(attribute.g, shapes)

    def _broadcast(self, known: list[list[Dim]]) -> None:
        for axis in range(-max((len(s) for s in known), default=0), 0):
            here = [s[axis] for s in known if len(s) >= -axis and self._find(s[axis]) != 1]
            for other in here[1:]:
                self._equal(here[0], other)

    def _channels(self, node: onnx.NodeProto, image: list[Dim], filters: list[Dim]) -> None:
        groups = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
        if node.op_type == "ConvTranspose":
            self._equal(image[1], filters[0])
        elif isinstance(filters[1], int):
            self._equal(image[1], filters[1] * groups)

    def _recurrent(self, known: list[list[Dim] | None]) -> None:
        sequence, weights, recurrence = known[:3]
        assert sequence is not None
        self._mark(sequence)
        if weights:
            self._equal(sequence[2], weights[2])
        if len(known) > 4 and known[4]:
            self._equal(known[4][0], sequence[1])
        for state in known[5:7]:
            if state and len(state) == 3:
                self._equal(state[1], sequence[1])
                if recurrence:
                    self._equal(state[2], recurrence[2])

    def _mark(self, sequence: list[Dim]) -> None:
        for marks, dim in zip((self._steps, self._batch), sequence[:2], strict=True):
            if isinstance(dim, str):
                marks.add(dim)

    def _networks(self, net: NetView, known: Mapping[str, list[Dim]]) -> None:
        """Unite operands of RecurrentNetworks: input [T,N,...], initial states [...,N,D], others of rank 1 [N]."""
        rows = {op.outputs[0]: op.inputs[0] for op in net.ops if op.type in ("FC", "Copy") and op.outputs}
        for op in net.ops:
            control = control_of(op)
            if not isinstance(control, RecurrentNetwork):
                continue
            name = op.inputs[0]
            while name not in known and name in rows:
                name = rows[name]
            sequence = known.get(name)
            if sequence is None or len(sequence) < 2:
                continue
            self._mark(sequence)
            states = control.initial_ids
            for i, operand in enumerate(op.inputs[1:], 1):
                shape = self._inputs.get(operand)
                if shape and i in states and len(shape) > 1:
                    self._equal(shape[-2], sequence[1])
                elif shape and i not in states and len(shape) == 1:
                    self._equal(shape[0], sequence[1])

    def _scan(self, node: onnx.NodeProto, known: list[list[Dim] | None], shapes: dict[str, list[Dim]]) -> None:
        body = next(a.g for a in node.attribute if a.name == "body")
        scanned = next(a.i for a in node.attribute if a.name == "num_scan_inputs")
        states = len(known) - scanned
        inner = dict(shapes)
        first = None
        if len(known) != len(body.input):
            return  # opset 8, whose first operand has the lengths of sequences
        for value, shape in zip(body.input, known, strict=True):
            if shape is not None:
                inner[value.name] = shape
        for i, (value, shape) in enumerate(zip(body.input, known, strict=True)):
            if shape is None or i < states:
                continue
            inner[value.name] = shape[1:]
            first = first or shape
            self._equal(first[0], shape[0])
            if len(shape) >= 3:
                self._mark(shape)
        self._graph(body, inner)
        made = {value.name: _dims(value) for value in body.output if value.type.tensor_type.HasField("shape")}
        for value, shape in zip(body.output[:states], known[:states], strict=True):
            if shape is not None and value.name in made:
                for a, b in zip(shape, made[value.name], strict=False):
                    self._equal(a, b)


def _dims(value: onnx.ValueInfoProto) -> list[Dim]:
    """Return the dims; an unnamed open dim gets a unique symbol."""
    return [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or f"{value.name}?{axis}"
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
    ]
