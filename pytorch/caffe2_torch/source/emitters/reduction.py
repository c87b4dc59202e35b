"""Reductions, and the greatest elements of rows."""

from __future__ import annotations

from typing import Final

from caffe2_torch.source.op import Family, Source, SourceOp

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
    return f"{op.x(0)}.{op.type[-4:].lower() if op.type.endswith('Mean') else 'sum'}({_dims(tuple(axes))})"


@family.emits("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
def reduce_axes(op: SourceOp) -> Source:
    axes = tuple(op.args.integers("axes", default=())) or tuple(range(op.known_rank(0)))
    keep = ", keepdim=True" if op.args.flag("keepdims", default=True) else ""
    return _REDUCED[op.type.removeprefix("Reduce")].format(x=op.x(0), axes=_dims(axes), keep=keep)


def _dims(axes: tuple[int, ...]) -> str:
    return f"dim={axes[0] if len(axes) == 1 else axes}"


@family.emits("ArgMax", "ArgMin")
def arg_extreme(op: SourceOp) -> Source:
    axis, keep = op.args.integer("axis", default=-1), op.args.flag("keepdims", default=True)
    return f"{op.x(0)}.{op.type.lower()}(dim={axis}{', keepdim=True' if keep else ''})"


@family.emits("IsEmpty")
def is_empty(op: SourceOp) -> Source:
    return f"torch.tensor({op.x(0)}.numel() == 0)"
