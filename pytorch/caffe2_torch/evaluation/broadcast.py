"""Caffe2's legacy broadcasting."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.op import Op


def broadcast_axis(op: Op) -> int:
    """Return where legacy broadcasting begins, from ``axis`` or the letter ``axis_str``; -1 for the last dims."""
    axis, letter = op.args.integer("axis", default=-1), op.args.text("axis_str", default="")
    order = op.args.text("order", default="NCHW")
    if not letter:
        return axis
    if axis != -1 or len(letter) != 1 or letter not in order:
        op.refuse(f"axis_str must be one letter of order {order!r}, without axis, not {letter!r}")
    return order.index(letter)


def align(op: Op, a: torch.Tensor, b: torch.Tensor, axis: int) -> torch.Tensor:
    """Append dims of size one to ``b``, so that its dims align with those of ``a`` from ``axis`` on."""
    if b.dim() == 0:
        return b
    start = a.dim() - b.dim() if axis == -1 else axis
    if not 0 <= start <= a.dim() - b.dim():
        if b.numel() == 1:
            return b.reshape(())
        op.refuse(f"the second operand has {b.dim()} dims, which must fit into the {a.dim()} of the first")
    aligned = b.reshape(*b.shape, *[1] * (a.dim() - start - b.dim()))
    if any(mine not in (1, dim) for dim, mine in zip(a.shape[start:], aligned.shape, strict=True)):
        op.refuse(f"the second operand's shape {tuple(b.shape)} must broadcast into the first's, {tuple(a.shape)}")
    return aligned


def operands(op: Op) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the two operands of a binary operator, so that PyTorch broadcasts them as Caffe2 does."""
    a, b = op.tensor(0), op.tensor(1)
    axis = broadcast_axis(op)
    if a.dtype != b.dtype:
        op.refuse(f"the operands must have one element type, not {a.dtype} and {b.dtype}")
    return (a, align(op, a, b, axis)) if op.args.flag("broadcast", default=False) else (a, b)


def require_same_shape(op: Op, *tensors: torch.Tensor) -> None:
    """Refuse operands that PyTorch would broadcast and Caffe2 does not."""
    if any(each.shape != tensors[0].shape for each in tensors):
        op.refuse(f"the operands must have the same shape, not {', '.join(str(tuple(t.shape)) for t in tensors)}")
