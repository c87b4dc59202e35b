"""What the integers of an input mean: rows of a table, lengths of sequences, lengths of segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import onnx

from caffe2_bridge.model import Model
from caffe2_bridge.net import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


@dataclass(frozen=True)
class Role:
    """What integers are: below a number, lengths up to T (``steps``), or lengths that add up to dim 0 of ``parts``."""

    below: int | None = None
    steps: bool = False
    parts: str = ""


# Operators whose input ``indices`` picks rows of input ``table``.
_TABLES: Final[Mapping[str, tuple[int, int]]] = {
    "Gather": (0, 1),
    "BatchGather": (0, 1),
    "SparseLengthsSum": (0, 1),
    "SparseLengthsMean": (0, 1),
    "SparseLengthsMax": (0, 1),
    "SparseLengthsWeightedSum": (0, 2),
    "SparseLengthsWeightedMean": (0, 2),
}
# Operators whose input ``lengths`` adds up to dim 0 of input ``data``.
_SEGMENTS: Final[Mapping[str, tuple[int, int]]] = {
    "SparseLengthsSum": (1, 2),
    "SparseLengthsMean": (1, 2),
    "SparseLengthsMax": (1, 2),
    "SparseLengthsWeightedSum": (2, 3),
    "SparseLengthsWeightedMean": (2, 3),
    "LengthsSum": (0, 1),
    "LengthsMean": (0, 1),
    "LengthsMax": (0, 1),
    "LengthsWeightedSum": (0, 2),
    "LengthsSplit": (0, 0),
    "PackSegments": (1, 0),
    "LengthsGather": (0, 1),
}
# Operators whose input is lengths of sequences.
_SEQUENCES: Final[Mapping[str, int]] = {"LSTMUnit": 3, "GRUUnit": 2, "SequenceMask": 1, "ReversePackedSegs": 1}
# Operators whose output holds the integers of their input.
_SAME: Final = frozenset(["Copy", "Cast", "EnsureCPUOutput", "CopyCPUToGPU", "CopyGPUToCPU", "Reshape", "Squeeze"])


def find_roles(model: onnx.ModelProto, net: Model | None) -> dict[str, Role]:
    """Roles of inputs by name: from the ONNX graph, and over them from the net."""
    roles: dict[str, Role] = {}
    sizes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in _nodes(model.graph):
        if node.op_type in ("LSTM", "GRU", "RNN") and len(node.input) > 4:
            roles[node.input[4]] = Role(steps=True)
        elif node.op_type == "Gather" and node.input[0] in sizes:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            roles[node.input[1]] = Role(below=sizes[node.input[0]][axis])
    if net is not None:
        roles.update(_net_roles(net))
    return roles


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def _net_roles(model: Model) -> dict[str, Role]:
    """Roles of blobs; a blob that is a copy of another hands its role on."""
    roles: dict[str, Role] = {}
    same: dict[str, str] = {}
    for op in _ops(model.predict_net):
        if op.type in _SAME:
            same[op.outputs[0]] = same.get(op.inputs[0], op.inputs[0])
        names = [same.get(name, name) for name in op.inputs]
        for name, role in _op_roles(op, names, model):
            roles.setdefault(name, role)
    roles.pop("", None)
    return roles


def _op_roles(op: OpView, names: list[str], model: Model) -> Iterator[tuple[str, Role]]:
    """What an operator says of the integers that it reads, the surest first."""
    parameters = model.init.parameters
    table, indices = _TABLES.get(op.type, (len(names), 0))
    if table < len(names) and names[table] in parameters and indices < len(names):
        axis = 1 if op.type == "BatchGather" else 0
        yield names[indices], Role(below=parameters[names[table]].shape[axis])
    data, lengths = _SEGMENTS.get(op.type, (0, len(names)))
    if lengths < len(names):
        yield names[lengths], Role(parts=names[data])
    position = _SEQUENCES.get(op.type, len(names))
    if position < len(names) and (op.type != "LSTMUnit" or len(names) > 4):
        yield names[position], Role(steps=True)
    if op.type == "RecurrentNetwork":
        states = op.args.integers("initial_recurrent_state_ids", default=())
        # Of what the loop reads beside its input and states, integers are lengths.
        yield from ((name, Role(steps=True)) for i, name in enumerate(names[1:], 1) if i not in states)
    if op.type == "LabelCrossEntropy":
        yield names[1], Role(below=2)


def _ops(net: NetDef) -> Iterator[OpView]:
    for op in NetView(net).ops:
        yield op
        for arg in op.proto.arg:
            if arg.HasField("n"):
                yield from _ops(arg.n)
