"""The shape of an input, from the operator that reads it first and the operands that exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators import infer_shapes
from caffe2_validation.inputs.assumptions import Assumptions, Shape
from caffe2_validation.inputs.specs import CHANNELS
from caffe2_validation.inputs.weights import CONVOLUTIONS, LAYERS, PASS, STATES, SUMS, Demands, broadcast_shape, filled
from caffe2_validation.roles import Role, Shapes

_TABLE: Final = 50
_LOOKUPS: Final = ("Gather", "SparseLengths", "BatchGather")
_PRODUCTS: Final = LAYERS | {"MatMul", "BatchMatMul"}
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
    """Return the shape of an input whose first reader demands none; its last dim may follow from later readers."""
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
    """Return the shape that an operator demands of an operand, given the others."""
    known = [shapes(name) for name in op.inputs]
    if op.type == "Concat":
        return _concat(op, index, known, rank, assumptions)
    if op.type in _SAME_SHAPE:
        other = next((shape for i, shape in enumerate(known) if shape is not None and i != index), None)
        return other if other is None or not index else broadcast_shape(op, other)
    if op.type.startswith(_LOOKUPS) and index == 0 and rank in (None, 2):
        return _TABLE, assumptions.width
    own = None if rank is None else (None,) * rank
    shape = infer_shapes(op, [*known[:index], own, *known[index + 1 :]], usual=True)[index]
    if shape is None or (op.type != "BatchMatMul" and not any(shape)):
        return None
    if None not in shape:
        return tuple(shape)
    return _free_dims(op, index, shape, known, assumptions) if op.type in _PRODUCTS else None


def _free_dims(
    op: OpView, index: int, shape: Sequence[int | None], known: Sequence[Shape | None], assumptions: Assumptions
) -> Shape:
    """Return the shape of a factor: rows are steps and the batch; what an FC flattens are columns."""
    size = assumptions.size
    if op.type == "BatchMatMul":
        rows = [size.batch] * (len(shape) - 2) + [size.other + 1, size.other]
        sizes = rows if known[1 - index] is None else [size.other + 2] * len(shape)
    else:
        axis = op.args.integer("axis", default=1) if op.type in LAYERS else len(shape)
        sizes = [size.steps, size.batch] if axis == 2 else [size.batch] * axis
    free = [dim if dim is not None else wanted for dim, wanted in zip(shape, sizes, strict=False)]
    return filled(op, index, (*free, *shape[len(free) :]), known)


def _state(op: OpView, index: int, features: int, assumptions: Assumptions) -> Shape | None:
    """Return an operand's shape in LSTMUnit or GRUUnit: of states [1,N,D], gates [1,N,kD], lengths [N], or step."""
    gates, _ = STATES[op.type]
    if index <= gates:
        return 1, assumptions.size.batch, features
    return (1,) if index == len(op.inputs) - 1 else (assumptions.size.batch,)


def _part(op: OpView, rank: int | None, shapes: Shapes, demands: Demands, assumptions: Assumptions) -> Shape | None:
    """Return the shape of a matrix in a Concat of columns to a known number: an even share of what the others leave."""
    if rank not in (None, 2) or op.args.integer("axis", default=1) not in (1, -1):
        return None
    known = [shapes(name) for name in op.inputs]
    missing = known.count(None)
    left = demands.of(op.outputs[0], last=True).channels - sum(shape[-1] for shape in known if shape)
    return (assumptions.size.batch, left // missing) if left >= missing > 0 else None


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
