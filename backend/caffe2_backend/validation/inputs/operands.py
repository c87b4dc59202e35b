"""The shape of an input, from the operator that reads it first and the operands that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Final

from caffe2_backend.validation.inputs.roles import Role, Shapes
from caffe2_backend.validation.inputs.specs import CHANNELS
from caffe2_backend.validation.inputs.weights import CONVOLUTIONS, LAYERS, SUMS, Shape, Wishes
from caffe2_bridge.netdef.views import OpView

if TYPE_CHECKING:
    from caffe2_backend.validation.inputs.synthesize import Start

_TABLE: Final = 50
_LOOKUPS: Final = ("Gather", "SparseLengths", "BatchGather")
_IMAGES: Final = CONVOLUTIONS | {"MaxPool", "AveragePool", "SpatialBN", "InstanceNorm", "GroupNorm", "LRN"}
_ALIKE: Final = SUMS | {"Max", "Min", "Mean", "EQ", "NE", "GT", "GE", "LT", "LE", "And", "Or", "Xor", "Where", "Pow"}
# Operands that have dims of the first one: of its columns, or of its dims from an axis on.
_LAST_DIMS: Final[Mapping[str, Callable[[OpView, int, Shape], Shape]]] = {
    "BatchBoxCox": lambda _op, _index, first: first[-1:],
    "ElementwiseLinear": lambda op, _index, first: (prod(first[op.args.integer("axis", default=1) :]),),
    "RMSNorm": lambda op, _index, first: first[op.args.integer("axis", default=1) :],
    "LayerNorm": lambda op, _index, first: first[op.args.integer("axis", default=1) :],
}


def input_shape(name: str, op: OpView, index: int, role: Role, shapes: Shapes, wishes: Wishes, start: Start) -> Shape:
    """The shape of an input of which nothing but its use is known.

    Args:
        name: the input.
        op: the operator that reads it first.
        index: its place.
        role: what its values mean.
        shapes: of the blobs that are there.
        wishes: what readers ask for.
        start: what the walk began with.
    """
    rank, batch, other = start.ranks.get(name), start.size.batch, start.size.other
    if role.columns:
        return _role_shape(role, start)
    demanded = _demanded(op, index, rank, shapes, start)
    if demanded is not None and (rank is None or len(demanded) == rank):
        return demanded
    if rank == 4 or (rank is None and op.type in _IMAGES):
        last = op.args.text("order", default="NCHW") == "NHWC" or op.type == "NHWC2NCHW"
        channels = wishes.of(name, last=last).channels or CHANNELS
        sides = (start.image, start.image)
        return (batch, *sides, channels) if last else (batch, channels, *sides)
    rank = start.rank if rank is None else rank
    return (batch, *(other,) * (rank - 1)) if rank else ()


def _role_shape(role: Role, start: Start) -> Shape:
    if role.kind == "image info":
        return start.size.batch, role.columns
    return (3 if role.kind == "anchors" else 2 * start.size.other), role.columns


def _demanded(op: OpView, index: int, rank: int | None, shapes: Shapes, start: Start) -> Shape | None:
    """What an operator asks of an operand, given the others."""
    known = [shapes(name) for name in op.inputs]
    demanded: Shape | None = None
    if index == 0 and len(known) > 1 and known[1]:
        demanded = _left_of_weight(op, known[1], rank, start.size.batch)
    if op.type in _LAST_DIMS and index and known[0]:
        demanded = _LAST_DIMS[op.type](op, index, known[0])
    elif op.type == "SparseToDenseMask" and index == 2 and known[1]:
        demanded = known[1][1:]
    elif op.type == "BatchMatMul":
        demanded = _batch_matmul(op, index, known, rank, start)
    elif op.type == "Concat":
        demanded = _concat(op, index, known, rank, start)
    elif op.type in _ALIKE:
        demanded = _alike(op, index, known)
    elif op.type.startswith(_LOOKUPS) and index == 0 and rank in (None, 2):
        demanded = (_TABLE, start.width)
    return demanded


def _left_of_weight(op: OpView, weight: Shape, rank: int | None, batch: int) -> Shape | None:
    """The first operand of a matrix product with a weight that is there."""
    if op.type in LAYERS:
        axis = op.args.integer("axis", default=1)
        columns = prod(weight[:-1] if op.type == "FCTransposed" else weight[op.args.integer("axis_w", default=1) :])
        inner = (rank or axis + 1) - axis
        return (batch,) * axis + (1,) * (inner - 1) + (columns,) if inner > 0 else None
    if op.type == "MatMul" and len(weight) == 2:
        inner = weight[1] if op.args.flag("trans_b", default=False) else weight[0]
        return (inner, batch) if op.args.flag("trans_a", default=False) else (batch, inner)
    return None


def _batch_matmul(op: OpView, index: int, known: list[Shape | None], rank: int | None, start: Start) -> Shape | None:
    trans = op.args.flag("trans_a", default=False), op.args.flag("trans_b", default=False)
    other = known[1 - index]
    if other is None:
        return (*(start.size.batch,) * ((rank or 3) - 2), start.size.other + 1, start.size.other)
    if len(other) < 2:
        return None
    # The inner dim is the first one's last and the second one's last but one, unless transposed.
    inner = other[-2 if trans[0] else -1] if index else other[-1 if trans[1] else -2]
    last = (index == 0) != trans[index]
    return (*other[:-2], start.size.other + 2, inner) if last else (*other[:-2], inner, start.size.other + 2)


def _concat(op: OpView, index: int, known: list[Shape | None], rank: int | None, start: Start) -> Shape | None:
    beside = next((shape for i, shape in enumerate(known) if shape is not None and i != index), None)
    if beside is not None:
        return beside
    axis = op.args.optional_integer("axis")
    added = op.args.integer("add_axis", default=0)
    if rank is None and axis is not None and axis > 0:
        return tuple(start.size.other + i for i in range(max(axis + (not added), 2)))
    return None


def _alike(op: OpView, index: int, known: list[Shape | None]) -> Shape | None:
    """As the other operand; a second one that is broadcast has its last dims, or those from ``axis`` on."""
    beside = next((shape for i, shape in enumerate(known) if shape is not None and i != index), None)
    if beside is None or not index or not op.args.flag("broadcast", default=False):
        return beside
    axis = op.args.optional_integer("axis", -1)
    return beside[-1:] if axis == -1 else beside[axis : axis + 1]
