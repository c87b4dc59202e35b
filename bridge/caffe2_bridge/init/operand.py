"""What the functions share that evaluate operators of init nets with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from caffe2_bridge.init.fill import FillError
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.netdef.views import OpView

# From an operator and its inputs to its outputs; it may give fewer than the operator lists, if they are not tensors.
Evaluate: TypeAlias = Callable[[OpView, Sequence[Array]], tuple[Array, ...]]


def require_inputs(inputs: Sequence[Array], least: int, most: int | None = None) -> None:
    """Raise FillError unless the number of inputs is in a range; ``most`` is ``least`` by default."""
    most = least if most is None else most
    if not least <= len(inputs) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise FillError(f"the operator must have {wanted} inputs, not {len(inputs)}")


def axis_of(value: int, rank: int) -> int:
    """Return an axis, counted from the end if it is negative. Raises FillError if the tensor does not have it."""
    if not -rank <= value < rank:
        raise FillError(f"axis {value} is out of range for a tensor of rank {rank}")
    return value % rank if rank else 0


def integers_of(array: Array, what: str) -> tuple[int, ...]:
    """Return the elements of an input of int32 or int64."""
    if array.dtype.kind != "i" or array.dtype.itemsize < 4:
        raise FillError(f"{what} must be int32 or int64, not {array.dtype.name}")
    return tuple(map(int, array.reshape(-1)))


def require_numbers(inputs: Sequence[Array]) -> None:
    """Raise FillError unless all inputs are tensors of numbers or bools, of one type."""
    kinds = {array.dtype for array in inputs}
    if any(dtype.kind not in "fiub" for dtype in kinds):
        raise FillError("the inputs must be numbers")
    if len(kinds) > 1:
        names = ", ".join(sorted(dtype.name for dtype in kinds))
        raise FillError(f"the inputs must have one element type, not {names}")


def aligned(op: OpView, a: Array, b: Array) -> tuple[Array, Array]:
    """Shape the second operand of a binary operator so that NumPy broadcasts it as Caffe2 does.

    With the argument ``broadcast`` its dims line up with those of the first from ``axis`` on, by default with the last;
    ``axis_str`` names the axis by its letter in ``order``.
    """
    if not op.args.flag("broadcast", default=False):
        return a, b
    axis = op.args.integer("axis", default=-1)
    letter = op.args.text("axis_str", default="")
    if letter:
        axis = op.args.text("order", default="NCHW").find(letter)
    after = 0 if axis < 0 else a.ndim - axis - b.ndim
    if after < 0 or b.ndim > a.ndim:
        raise FillError(f"the second input, of rank {b.ndim}, does not fit into the first, of rank {a.ndim}")
    b = b.reshape((*b.shape, *(1,) * after))
    if any(dim not in (1, whole) for dim, whole in zip(b.shape[::-1], a.shape[::-1], strict=False)):
        raise FillError(f"the second input, of shape {list(b.shape)}, does not fit into the first, {list(a.shape)}")
    return a, b
