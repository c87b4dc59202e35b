"""The shape of an input, from the operator that reads it first and the operands that exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_validation.inputs.assumptions import Assumptions, Shape
from caffe2_validation.inputs.specs import CHANNELS
from caffe2_validation.inputs.weights import CONVOLUTIONS, LAYERS, PASS, STATES, SUMS, Demands
from caffe2_validation.roles import Role, Shapes
from caffe2_validation.sizes import Size

_TABLE: Final = 50
_LOOKUPS: Final = ("Gather", "SparseLengths", "BatchGather")
_IMAGES: Final = CONVOLUTIONS | {
    "MaxPool",
    "AveragePool",
    "SpatialBN",
    "InstanceNorm",
    "GroupNorm",
    "LRN",
    "ChannelShuffle",
}
_SAME_SHAPE: Final = SUMS | {
    "Max",
    "Min",
    "Mean",
    "EQ",
    "NE",
    "GT",
    "GE",
    "LT",
    "LE",
    "And",
    "Or",
    "Xor",
    "Where",
    "Pow",
}
# Operands with dims of the first one: the last, or those from an axis on.
_DIMS_OF_FIRST: Final[Mapping[str, Callable[[OpView, int, Shape], Shape]]] = {
    "BatchBoxCox": lambda _op, _index, first: first[-1:],
    "ElementwiseLinear": lambda op, _index, first: (prod(first[op.args.integer("axis", default=1) :]),),
    "RMSNorm": lambda op, _index, first: first[op.args.integer("axis", default=1) :],
    "LayerNorm": lambda op, _index, first: first[op.args.integer("axis", default=1) :],
}


def input_shape(
    name: str, op: OpView, index: int, role: Role, shapes: Shapes, demands: Demands, assumptions: Assumptions
) -> Shape:
    """Infer the shape of an input from its use alone.

    Args:
        name: the input.
        op: the operator that reads it first.
        index: of the operand.
        role: what its values mean.
        shapes: of the blobs that exist.
        demands: of the readers.
        assumptions: of the synthesis.
    """
    rank, batch = assumptions.ranks.get(name), assumptions.size.batch
    if role.columns:
        return _role_shape(role, assumptions)
    demanded = _demanded(op, index, rank, shapes, assumptions)
    if op.type in STATES:
        demanded = _state(op, index, demands.of(name, last=True).channels, assumptions)
    elif op.type == "Concat":
        demanded = _part(op, rank, shapes, demands, assumptions) or demanded
    elif demanded is not None and len(demanded) == 3 and demands.is_state(name):
        demanded = (1, batch, demanded[-1])
    if demanded is not None and (rank is None or len(demanded) == rank):
        return demanded
    if rank in (4, 5) or (rank is None and op.type in _IMAGES):
        last = op.args.text("order", default="NCHW") == "NHWC" or op.type == "NHWC2NCHW"
        channels = demands.of(name, last=last).channels or CHANNELS
        is_video = rank == 5 or (rank is None and len(op.args.integers("kernels", default=())) == 3)
        sides = (assumptions.frames, *assumptions.sides) if is_video else assumptions.sides
        return (batch, *sides, channels) if last else (batch, channels, *sides)
    return _free_shape(name, op, rank, demands, assumptions)


def _free_shape(name: str, op: OpView, rank: int | None, demands: Demands, assumptions: Assumptions) -> Shape:
    """The shape of an input of which its first reader demands nothing; its last dim may follow from later readers."""
    batch, other = assumptions.size.batch, assumptions.size.other
    last = demands.of(name, last=True).channels
    if rank in (None, 3) and demands.is_state(name):
        return 1, batch, last or other
    if rank == 3 and op.type in LAYERS and op.args.integer("axis", default=1) == 2:
        return assumptions.size.steps, batch, last or other
    if rank is None:
        rank = 2 if last and op.type in PASS | {"Reshape"} else assumptions.rank
    return (batch, *(other,) * (rank - 2), last or other) if rank > 1 else (batch,) * rank


def _role_shape(role: Role, assumptions: Assumptions) -> Shape:
    if role.kind == "image info":
        return assumptions.size.batch, role.columns
    return (3 if role.kind == "anchors" else 2 * assumptions.size.other), role.columns


def _demanded(op: OpView, index: int, rank: int | None, shapes: Shapes, assumptions: Assumptions) -> Shape | None:
    """The shape that an operator demands of an operand, given the others."""
    known = [shapes(name) for name in op.inputs]
    demanded: Shape | None = None
    if index == 0 and len(known) > 1 and known[1]:
        demanded = _left_of_weight(op, known[1], rank, assumptions.size)
    if op.type in _DIMS_OF_FIRST and index and known[0]:
        demanded = _DIMS_OF_FIRST[op.type](op, index, known[0])
    elif op.type == "SparseToDenseMask" and index == 2 and known[1]:
        demanded = known[1][1:]
    elif op.type == "BatchMatMul":
        demanded = _batch_matmul(op, index, known, rank, assumptions)
    elif op.type == "Concat":
        demanded = _concat(op, index, known, rank, assumptions)
    elif op.type in _SAME_SHAPE:
        demanded = _same_shape(op, index, known)
    elif op.type.startswith(_LOOKUPS) and index == 0 and rank in (None, 2):
        demanded = (_TABLE, assumptions.width)
    return demanded


def _left_of_weight(op: OpView, weight: Shape, rank: int | None, size: Size) -> Shape | None:
    """The shape of the first operand of a matrix product whose weight exists."""
    if op.type in LAYERS:
        axis = op.args.integer("axis", default=1)
        columns = prod(weight[:-1] if op.type == "FCTransposed" else weight[op.args.integer("axis_w", default=1) :])
        inner = (rank or axis + 1) - axis
        rows = (size.steps, size.batch) if axis == 2 else (size.batch,) * axis
        return rows + (1,) * (inner - 1) + (columns,) if inner > 0 else None
    if op.type == "MatMul" and len(weight) == 2:
        inner = weight[1] if op.args.flag("trans_b", default=False) else weight[0]
        return (inner, size.batch) if op.args.flag("trans_a", default=False) else (size.batch, inner)
    return None


def _state(op: OpView, index: int, features: int, assumptions: Assumptions) -> Shape | None:
    """Operands of LSTMUnit and GRUUnit: states [1,N,D], gates [1,N,kD], lengths [N], and the step."""
    gates, _ = STATES[op.type]
    if index <= gates:
        return 1, assumptions.size.batch, features
    return (1,) if index == len(op.inputs) - 1 else (assumptions.size.batch,)


def _part(op: OpView, rank: int | None, shapes: Shapes, demands: Demands, assumptions: Assumptions) -> Shape | None:
    """A matrix of a Concat of columns whose result has a known number: an even share of what the others leave."""
    if rank not in (None, 2) or op.args.integer("axis", default=1) not in (1, -1):
        return None
    known = [shapes(name) for name in op.inputs]
    missing = known.count(None)
    left = demands.of(op.outputs[0], last=True).channels - sum(shape[-1] for shape in known if shape)
    return (assumptions.size.batch, left // missing) if left >= missing > 0 else None


def _batch_matmul(
    op: OpView, index: int, known: list[Shape | None], rank: int | None, assumptions: Assumptions
) -> Shape | None:
    trans = op.args.flag("trans_a", default=False), op.args.flag("trans_b", default=False)
    other = known[1 - index]
    if other is None:
        return (*(assumptions.size.batch,) * ((rank or 3) - 2), assumptions.size.other + 1, assumptions.size.other)
    if len(other) < 2:
        return None
    # The inner dim is the last of the first operand and the last but one of the second, unless transposed.
    inner = other[-2 if trans[0] else -1] if index else other[-1 if trans[1] else -2]
    last = (index == 0) != trans[index]
    return (
        (*other[:-2], assumptions.size.other + 2, inner) if last else (*other[:-2], inner, assumptions.size.other + 2)
    )


def _concat(
    op: OpView, index: int, known: list[Shape | None], rank: int | None, assumptions: Assumptions
) -> Shape | None:
    other_shape = next((shape for i, shape in enumerate(known) if shape is not None and i != index), None)
    if other_shape is not None:
        return other_shape
    axis = op.args.optional_integer("axis")
    added = op.args.integer("add_axis", default=0)
    if rank is None and axis is not None and axis > 0:
        return tuple(assumptions.size.other + i for i in range(max(axis + (not added), 2)))
    return None


def _same_shape(op: OpView, index: int, known: list[Shape | None]) -> Shape | None:
    """The shape of the other operand; a second one that is broadcast has its last dim, or the dim at ``axis``."""
    other_shape = next((shape for i, shape in enumerate(known) if shape is not None and i != index), None)
    if other_shape is None or not index or not op.args.flag("broadcast", default=False):
        return other_shape
    axis = op.args.optional_integer("axis", -1)
    return other_shape[-1:] if axis == -1 else other_shape[axis : axis + 1]
