"""Roles of inputs: what their values mean, such as indices into a table, lengths of sequences, boxes, probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import onnx

from caffe2_bridge.control import RecurrentNetwork
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.nested import operators_in
from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.interop.bodies import proto_nodes
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import RECURRENT

Kind = Literal["image info", "anchors", "boxes", "probabilities", "positive"]
# Returns the shape of a blob; None if it is unknown.
Shapes: TypeAlias = Callable[[str], tuple[int, ...] | None]


@dataclass(frozen=True)
class Role:
    """What the values of an input mean.

    Attributes:
        below: upper bound of integers.
        steps: whether integers are lengths of sequences, up to T.
        parts: integers are lengths that add up to dim 0 of this blob; boxes are regions of this feature map.
        kind: of floats.
        scale: of the feature map ``parts``, relative to the image in which boxes are given.
        columns: the last dim that the kind has; 0 for any.
    """

    below: int | None = None
    steps: bool = False
    parts: str = ""
    kind: Kind | None = None
    scale: float = 1.0
    columns: int = 0


# Operators whose input ``indices`` picks rows of input ``table``.
_TABLES: Final[Mapping[str, tuple[int, int]]] = {
    "Gather": (0, 1),
    "BatchGather": (0, 1),
    "SparseLengthsSum": (0, 1),
    "SparseLengthsMean": (0, 1),
    "SparseLengthsMax": (0, 1),
    "SparseLengthsWeightedSum": (0, 2),
    "SparseLengthsWeightedMean": (0, 2),
    **{f"SparseLengths{kind}{rows}": (0, 1) for kind in ("Sum", "Mean")
       for rows in ("8BitsRowwise", "Fused8BitRowwise", "Fused4BitRowwise", "Fused2BitRowwise")},
    **{f"SparseLengthsWeighted{kind}{rows}": (0, 2) for kind in ("Sum", "Mean")
       for rows in ("8BitsRowwise", "Fused8BitRowwise", "Fused4BitRowwise", "Fused2BitRowwise")},
}  # fmt: skip
# Operators whose input ``lengths`` adds up to dim 0 of input ``data``.
_SEGMENTS: Final[Mapping[str, tuple[int, int]]] = {
    **{op_type: (indices, indices + 1) for op_type, (_, indices) in _TABLES.items() if "Lengths" in op_type},
    "LengthsSum": (0, 1),
    "LengthsMean": (0, 1),
    "LengthsMax": (0, 1),
    "LengthsWeightedSum": (0, 2),
    "LengthsSplit": (0, 0),
    "PackSegments": (1, 0),
    "LengthsGather": (0, 1),
    "BatchSparseToDense": (1, 0),
}
# Operators whose input is lengths of sequences.
_SEQUENCES: Final[Mapping[str, int]] = {"LSTMUnit": 3, "GRUUnit": 2, "SequenceMask": 1, "ReversePackedSegs": 1}
# Operators whose output holds the integers of their input.
_SAME: Final = frozenset(["Copy", "Cast", "EnsureCPUOutput", "CopyCPUToGPU", "CopyGPUToCPU", "Reshape", "Squeeze"])
_IMAGE_INFO: Final = Role(kind="image info", columns=3)
# Kinds of floats by operator and position.
_KINDS: Final[Mapping[tuple[str, int], Role]] = {
    ("GenerateProposals", 2): _IMAGE_INFO,
    ("GenerateProposals", 3): Role(kind="anchors", columns=4),
    ("GenerateProposalsCPP", 2): _IMAGE_INFO,
    ("GenerateProposalsCPP", 3): Role(kind="anchors", columns=4),
    ("BBoxTransform", 0): Role(kind="boxes", columns=4),
    ("BBoxTransform", 2): _IMAGE_INFO,
    ("BoxWithNMSLimit", 0): Role(kind="probabilities"),
    ("LabelCrossEntropy", 0): Role(kind="probabilities"),
    ("CrossEntropy", 0): Role(kind="probabilities"),
    ("CrossEntropy", 1): Role(kind="probabilities"),
    ("Logit", 0): Role(kind="probabilities"),
    ("BatchBoxCox", 0): Role(kind="positive"),
    ("BatchBoxCox", 1): Role(kind="positive"),
    ("BatchBoxCox", 2): Role(kind="positive"),
    ("SpatialBN", 4): Role(kind="positive"),
}
_ROW_BYTES: Final = 60
_REGIONS: Final = frozenset(["RoIAlign", "RoIPool", "RoIPoolF"])


def find_roles(model: onnx.ModelProto | None, net: Model | None) -> dict[str, Role]:
    """Return the roles of inputs by name: from the ONNX graph, and over them from the net."""
    roles = {} if model is None else _graph_roles(model.graph)
    if net is not None:
        roles.update(_net_roles(net))
    return roles


def _graph_roles(graph: onnx.GraphProto) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    sizes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in proto_nodes(graph):
        if standard_type(node) in RECURRENT and len(node.input) > 4:
            roles[node.input[4]] = Role(steps=True)
        elif standard_type(node) == "Gather" and node.input[0] in sizes:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            dims = sizes[node.input[0]]
            if -len(dims) <= axis < len(dims):
                roles[node.input[1]] = Role(below=dims[axis])
    return roles


def _net_roles(model: Model) -> dict[str, Role]:
    """Return the roles of blobs; a blob that is a copy of another hands its role on."""
    roles: dict[str, Role] = {}
    same: dict[str, str] = {}
    parameters = model.init.parameters

    def shapes(name: str) -> tuple[int, ...] | None:
        return parameters[name].shape if name in parameters else None

    for op in (OpView(proto, 0) for proto in operators_in(model.predict_net)):
        if op.type in _SAME and op.inputs and op.outputs:
            same[op.outputs[0]] = same.get(op.inputs[0], op.inputs[0])
        names = [same.get(name, name) for name in op.inputs]
        for name, role in op_roles(op, names, shapes):
            roles.setdefault(name, role)
    roles.pop("", None)
    return roles


def op_roles(op: OpView, names: Sequence[str], shapes: Shapes) -> Iterator[tuple[str, Role]]:
    """Yield what an operator says of the values that it reads, the surest first.

    Args:
        op: the operator.
        names: its inputs, under the names to which roles are assigned.
        shapes: of blobs that exist.
    """
    yield from _lookup_roles(op, names, shapes)
    position = _SEQUENCES.get(op.type, len(names))
    if position < len(names) and (op.type != "LSTMUnit" or len(names) > 4):
        yield names[position], Role(steps=True)
    if op.type == "RecurrentNetwork":
        states = RecurrentNetwork(op).initial_ids
        # Other integer operands than the input and the states are lengths.
        yield from ((name, Role(steps=True)) for i, name in enumerate(names[1:], 1) if i not in states)
    if op.type in ("LabelCrossEntropy", "SoftmaxWithLoss") and len(names) > 1:
        scores = shapes(names[0])
        yield names[1], Role(below=scores[-1] if scores else 2)
    if op.type in _REGIONS and len(names) > 1:
        scale = op.args.number("spatial_scale", default=1.0)
        yield names[1], Role(kind="boxes", columns=5, parts=names[0], scale=scale if scale > 0 else 1.0)
    for index, name in enumerate(names):
        if (op.type, index) in _KINDS:
            yield name, _KINDS[op.type, index]


def _lookup_roles(op: OpView, names: Sequence[str], shapes: Shapes) -> Iterator[tuple[str, Role]]:
    """Yield the roles of tables, the indices into them, and the lengths of segments."""
    table, indices = _TABLES.get(op.type, (len(names), 0))
    rows = shapes(names[table]) if table < len(names) and indices < len(names) else None
    axis = 1 if op.type == "BatchGather" else 0
    if rows is not None and len(rows) > axis:
        yield names[indices], Role(below=rows[axis])
    if "Fused" in op.type and op.type.startswith("SparseLengths") and names:
        # The last bytes of a row are floats, scale and bias: of bytes this small they are small too.
        yield names[0], Role(below=_ROW_BYTES)
    if op.type == "BatchSparseToDense" and 1 < len(names) < 4 and "dense_last_dim" in op.args:
        yield names[1], Role(below=op.args.integer("dense_last_dim"))
    data, lengths = _SEGMENTS.get(op.type, (0, len(names)))
    if max(data, lengths) < len(names):
        yield names[lengths], Role(parts=names[data])
