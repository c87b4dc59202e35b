"""Reductions, and the greatest elements of rows."""

from __future__ import annotations

from typing import Final

import torch

from caffe2_torch.source.op import Family, Source, SourceOp, Unpacked

family = Family("reduction")

_REDUCED: Final = {
    "Sum": "{x}.sum({axes}{keep})", "Mean": "{x}.mean({axes}{keep})", "Max": "{x}.amax({axes}{keep})",
    "Min": "{x}.amin({axes}{keep})",
}  # fmt: skip


@family.emits("AveragedLoss")
def averaged_loss(op: SourceOp) -> Source:
    return f"{op.x(0)}.mean()"


@family.emits(*(f"Reduce{place}{kind}" for place in ("Front", "Back") for kind in ("Sum", "Mean")))
def front_or_back(op: SourceOp) -> Source:
    count = op.args.integer("num_reduce_dim", default=1)
    if op.has(1) or count < 1:
        op.refuse("lengths are not supported, and num_reduce_dim must be positive")
    axes = range(count) if "Front" in op.type else range(-count, 0)
    name, x = ("mean", _real(op)) if op.type.endswith("Mean") else ("sum", op.x(0))
    return f"{x}.{name}({_dims(tuple(axes))}{_as_before(op, name)})"


def _real(op: SourceOp) -> str:
    """Return X, which the means of Caffe2 that round are not supported for."""
    dtype = op.dtype(0)
    if dtype is not None and not dtype.is_floating_point:
        op.refuse("a mean of integers is not supported")
    return op.x(0)


def _as_before(op: SourceOp, name: str) -> str:
    """Return the argument that keeps the element type of X, of which PyTorch's sum of integers makes int64."""
    dtype = op.dtype(0)
    return f", dtype={dtype}" if name == "sum" and dtype in (torch.int32, torch.uint8, torch.int8) else ""


@family.emits("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
def reduce_axes(op: SourceOp) -> Source:
    axes = tuple(dict.fromkeys(op.args.integers("axes", default=()))) or tuple(range(op.known_rank(0)))
    keep = ", keepdim=True" if op.args.flag("keepdims", default=True) else ""
    keep += _as_before(op, op.type.removeprefix("Reduce").lower())
    if op.type == "ReduceMean":
        _real(op)
    return _REDUCED[op.type.removeprefix("Reduce")].format(x=op.x(0), axes=_dims(axes), keep=keep)


def _dims(axes: tuple[int, ...]) -> str:
    return f"dim={axes[0] if len(axes) == 1 else axes}"


@family.emits("ArgMax", "ArgMin")
def arg_extreme(op: SourceOp) -> Source:
    axis, keep = op.args.integer("axis", default=-1), op.args.flag("keepdims", default=True)
    return f"{op.x(0)}.{op.type.lower()}(dim={axis}{', keepdim=True' if keep else ''})"


@family.emits("TopK")
def top_k(op: SourceOp) -> Source:
    axis, k = op.args.integer("axis", default=-1), op.args.integer("k")
    if op.wants(2):
        op.refuse("flattened indices are not supported")
    return Unpacked(op.call("top_k", op.x(0), str(k), axis=axis))


@family.emits("LpNorm")
def lp_norm(op: SourceOp) -> Source:
    power = "abs" if op.args.integer("p", default=2) == 1 else "square"
    reduce = "mean" if op.args.flag("average", default=False) else "sum"
    return f"{op.x(0)}.{power}().{reduce}().reshape(1)"


@family.emits("Accuracy")
def accuracy(op: SourceOp) -> Source:
    return op.call("accuracy", op.x(0), op.x(1), top_k=op.args.integer("top_k", default=1))


@family.emits("IsEmpty")
def is_empty(op: SourceOp) -> Source:
    return f"torch.tensor({op.x(0)}.numel() == 0)"
