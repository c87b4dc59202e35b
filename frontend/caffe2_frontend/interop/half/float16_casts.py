"""The casts that onnxruntime's float16 converter adds, moved to the nodes that need them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Final

import onnx

from caffe2_frontend.interop.bodies import proto_bodies, proto_nodes

_TO_FLOAT32: Final = "_cast_to_fp32"
_TO_FLOAT16: Final = "_cast_to_fp16"
_OF_INPUT: Final = re.compile(r"graph_input_cast\d+")
_OF_OUTPUT: Final = re.compile(r"graph_output_cast\d+")


def move_casts(model: onnx.ModelProto, weights: Container[str]) -> None:
    """Give each graph the casts that its own nodes need, once for each value, before their first reader.

    The converter appends all of them to the main graph, and casts what one node in float32 hands to another to float16
    and back. A weight that only nodes in float32 read, an input of the graph here, becomes float32 again.
    """
    casts = _Casts(model.graph)
    _rename(model.graph, casts.shortcuts())
    read = set(_read(model.graph))
    renamed = {}
    for value in model.graph.input:
        if value.name in weights and value.name not in read:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
            renamed[value.name + _TO_FLOAT32] = value.name
    _rename(model.graph, renamed)
    read = set(_read(model.graph))
    read |= {cast.input[0] for name, cast in casts.down.items() if name in read} | {
        cast.input[0] for cast in casts.of_outputs
    }
    casts.insert(model.graph, read, set())
    heads = [cast for cast in casts.of_inputs if cast.output[0] in read]
    _set_nodes(model.graph, [*heads, *model.graph.node, *casts.of_outputs])


class _Casts:
    """The casts of a model, taken out of its main graph.

    Attributes:
        of_inputs: those of the inputs of the model, to float16.
        of_outputs: those of its outputs, to float32.
        down: those to float32 before nodes, by the name of the result.
        up: those to float16 after nodes, by the name of the operand.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.of_inputs: list[onnx.NodeProto] = []
        self.of_outputs: list[onnx.NodeProto] = []
        self.down: dict[str, onnx.NodeProto] = {}
        self.up: dict[str, onnx.NodeProto] = {}
        others = []
        for node in map(_copy, graph.node):
            if _OF_INPUT.fullmatch(node.name):
                self.of_inputs.append(node)
            elif _OF_OUTPUT.fullmatch(node.name):
                self.of_outputs.append(node)
            elif node.op_type == "Cast" and node.name == f"{node.input[0]}{_TO_FLOAT32}_node":
                self.down[node.output[0]] = node
            elif node.op_type == "Cast" and node.name == f"{node.output[0]}{_TO_FLOAT16}_node":
                self.up[node.input[0]] = node
            else:
                others.append(node)
        _set_nodes(graph, others)

    def shortcuts(self) -> dict[str, str]:
        """Return, for casts to float32 of what was cast to float16 just before, the value to read instead.

        The casts of outputs read such values directly.
        """
        sources = {cast.output[0]: cast.input[0] for cast in (*self.up.values(), *self.of_inputs)}
        for cast in self.of_outputs:
            cast.input[0] = sources.get(cast.input[0], cast.input[0])
        return {name: sources[cast.input[0]] for name, cast in self.down.items() if cast.input[0] in sources}

    def insert(self, graph: onnx.GraphProto, read: Container[str], outside: set[str]) -> None:
        """Insert the casts into a graph and its bodies; ``outside`` are those that enclosing graphs have so far."""
        known = set(outside)
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            for name in node.input:
                if name in self.down and name not in known:
                    known.add(name)
                    nodes.append(self.down[name])
            for body in proto_bodies(node):
                self.insert(body, read, known)
            nodes.append(node)
            after = (self.up[name] for name in node.output if name in self.up)
            nodes += [cast for cast in after if cast.output[0] in read]
        _set_nodes(graph, nodes)


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for node in proto_nodes(graph):
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = names[name]


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that nodes read and graphs output, at any depth."""
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for body in proto_bodies(node):
            yield from _read(body)


def _set_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    copies = [_copy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
