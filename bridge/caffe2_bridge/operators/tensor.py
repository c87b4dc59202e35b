"""Signatures of elementwise operators, and of those that join, split, reduce and reorder dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators.signature import Shape, Text

Shapes = Sequence[Shape | None]


def _dims(symbol: str, count: int) -> list[str]:
    return [f"{symbol}{i}" for i in range(count)]


def _broadcast(op: OpView, shapes: Shapes) -> str:
    """Give B dims of A, from ``axis`` on, with ``broadcast``; else both are broadcast, and ranks alone are known."""
    a, b, *_, y = (None if shape is None else len(shape) for shape in shapes)
    if op.args.integer("broadcast", default=0):
        if op.args.integer("axis", default=-1) < 0 or b is None or None not in (shapes[1] or ()):
            return f"A[*A], B[*B{'' if a is None else ':1'}] -> Y[*A]"
        dims = ", ".join(_dims("d", b))
        return f"A[*L{{axis=0}}, {dims}, *R], B[{dims}] -> Y[*L, {dims}, *R]"
    known = [rank for rank in (a, b) if rank is not None]
    if len(known) == 2 and shapes[-1] and all(size == 1 for size in shapes[-1]):
        return f"A[{_ones(known[0])}], B[{_ones(known[1])}] -> Y"
    if len(known) == 1 and y is not None and known[0] < y:
        return f"A[*A{{{y}}}], B -> Y" if a is None else f"A, B[*B{{{y}}}] -> Y"
    if len(known) == 2:
        return f"A, B -> Y[*Y{{{max(known)}}}]"
    usual = [f":{rank}" for rank in (y, *known) if rank is not None] or [""]
    return "A[*A{0}], B[*B{0}] -> Y[*Y{0}]".format(usual[0])


def _ones(rank: int) -> str:
    """Return the dims of a tensor of one element."""
    return ", ".join(["1"] * rank) or "()"


def _condition(_: OpView, shapes: Shapes) -> str:
    """If, While: the condition has one element."""
    return "condition -> Y" if shapes[0] is None else f"condition[{_ones(len(shapes[0]))}] -> Y"


def _around(op: OpView, dim: str, rank: int) -> str:
    """Return a dim at ``axis``, and those around it, of an operand that has usually ``rank``."""
    axis = op.args.integer("axis", default=3 if op.args.text("order", default="NCHW") == "NHWC" else 1)
    return f"*L{{{axis}}}:{max(rank + axis, 0)}, {dim}, *R:{max(rank - 1 - axis, 0)}"


def _adds_axis(op: OpView) -> bool:
    """Whether an axis is added: the argument counts only where ``axis`` is given."""
    return op.args.flag("add_axis", default=False) and "axis" in op.args


def _concat(op: OpView, _: Shapes) -> str:
    count = len(op.inputs)
    if _adds_axis(op):
        return f"X...[*L, *R] -> Y[{_around(op, str(count), 3)}], sizes[{count}]"
    return f"X...[{_around(op, '+J', 2)}] -> Y[*L, J, *R], sizes[{count}]"


def _split(op: OpView, _: Shapes) -> str:
    return f"X[{_around(op, 'J', 2)}], sizes -> Y...[*L, {'' if _adds_axis(op) else '+J, '}*R]"


def _transpose(op: OpView, shapes: Shapes) -> str:
    """Put the dims in the order of ``axes``, by default reversed."""
    axes = op.args.integers("axes", default=())
    ranks = [len(axes)] if axes else [len(shape) for shape in shapes if shape is not None]
    if not ranks or any(not 0 <= axis < len(axes) for axis in axes):
        return "X[*S] -> Y[*S']"
    dims = _dims("d", ranks[0])
    return f"X[{', '.join(dims)}] -> Y[{', '.join(dims[axis] for axis in axes or reversed(range(ranks[0])))}]"


def _reshape(op: OpView, _: Shapes) -> str:
    wanted = op.args.integers("shape", default=())
    if not wanted:
        return "X -> Y"
    zeros = [axis for axis, size in enumerate(wanted) if size == 0]
    dims = [*_dims("d", max(zeros) + 1), "*R"] if zeros else ["*R"]
    y = [f"d{axis}" if size == 0 else str(size) if size > 0 else "_" for axis, size in enumerate(wanted)]
    return f"X[{', '.join(dims)}] -> Y[{', '.join(y)}]"


def _expand(op: OpView, shapes: Shapes) -> str:
    """ExpandDims and Squeeze: dims of size 1 are added or removed."""
    added = sorted(set(op.args.integers("dims", default=())))
    small, large = (shapes[0], shapes[1]) if op.type == "ExpandDims" else (shapes[1], shapes[0])
    rank = len(small) + len(added) if small is not None else len(large) if large is not None else None
    if rank is None or rank < len(added):
        return "X -> Y"
    kept = iter(_dims("d", rank))
    whole = ["1" if axis in added else next(kept) for axis in range(rank)]
    parts = [f"[{', '.join(dim for dim in whole if dim != '1')}]".replace("[]", "[()]"), f"[{', '.join(whole)}]"]
    return "X{} -> Y{}".format(*(parts if op.type == "ExpandDims" else reversed(parts)))


def _gather(op: OpView, _: Shapes) -> str:
    return "X, I -> Y" if op.args.integer("axis", default=0) else "X[R, *D:1], indices[*Q:1] -> Y[*Q, *D]"


SIGNATURES: Final[Mapping[str, Text]] = {
    "Abs Acos Alias AliasWithName Asin Atan Bucketize Cast Cbrt Ceil Clip Copy CopyCPUToGPU "
    "CopyFromCPUInput CopyGPUToCPU Cos Cosh Cube Dropout Elu EnsureClipped EnsureCPUOutput EnsureDense Erf Exp "
    "FloatToHalf Floor Gelu HalfToFloat HardSigmoid Int8Dequantize Int8LeakyRelu Int8Quantize Int8Relu Int8Sigmoid "
    "HSwish Int8Softmax LRN LeakyRelu Log Log1p Logit Mish Mod NanCheck Negative Normalize NormalizeL1 Not Pow "
    "Reciprocal Relu ReluN ReplaceNaN Round Rsqrt Scale Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqr "
    "Sqrt StopGradient StumpFunc Swish Tan Tanh ThresholdedRelu": "X[*S] -> Y[*S]",
    "Add And BitwiseAnd BitwiseOr BitwiseXor Div EQ GE GT LE LT Mul NE Or Sub Xor": _broadcast,
    "Sum SumRelu Mean Max Min Int8Add Int8Sum Int8SumRelu": "X...[*S] -> Y[*S]",
    "Slice Tile": "X[*S] -> Y[*S']",
    "TopK": "X[*S:2] -> values[*S'], indices[*S']",
    "Concat DepthConcat": _concat,
    "Split": _split,
    "Transpose": _transpose,
    "If While": _condition,
    "Reshape": _reshape,
    "Flatten Int8Flatten": "X[*L{axis=1}, *R] -> Y[L, R]",
    "FlattenToVec": "X[*S] -> Y[S]",
    "ExpandDims Squeeze": _expand,
    "ReduceFrontSum ReduceFrontMean ReduceFrontMax": "X[*R{num_reduce_dim=1}, *K:1] -> Y[*K]",
    "ReduceBackSum ReduceBackMean ReduceBackMax": "X[*K:1, *R{num_reduce_dim=1}] -> Y[*K]",
    "Gather": _gather,
    "Shape": "X -> Y[R]",
}
