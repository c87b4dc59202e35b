"""Signatures of layers: products, convolutions, poolings, normalizations, activations with parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument, window_rank
from caffe2_bridge.operators.signature import Shape, Text


def _window(op: OpView) -> tuple[str, str]:
    """Return the terms for the sides of an image and of a kernel, as far as the arguments say them."""
    rank = window_rank(op.args)
    if rank is None:
        return "*S:2", "*S'"
    kernel = window_argument(op.args, "kernel", rank)[:rank]
    return f"*S{{{rank}}}", ", ".join(map(str, kernel)) if len(kernel) == rank and min(kernel, default=0) > 0 else "*S'"


def _convolution(op: OpView, _: Sequence[Shape | None]) -> str:
    sides, kernel = _window(op)
    return f"X[N, ^{{group=1}}*C, {sides}]; W[M, ^C, {kernel}], b[M] -> Y[N, ^M, *S'']"


def _transposed_convolution(op: OpView, _: Sequence[Shape | None]) -> str:
    sides, kernel = _window(op)
    return f"X[N, ^C, {sides}]; W[C, ^M, {kernel}], b[{{group=1}}*M] -> Y[N, ^{{group=1}}*M, *S'']"


def _deformable_convolution(op: OpView, _: Sequence[Shape | None]) -> str:
    sides, kernel = _window(op)
    return f"X[N, {{group=1}}*C, {sides}], offset[N, O, *S'']; W[M, C, {kernel}], b[M] -> Y[N, M, *S'']"


def _local_convolution(op: OpView, _: Sequence[Shape | None]) -> str:
    """Describe a kernel at each position of the result; for order NHWC its channels come last, the result's before."""
    sides, kernel = _window(op)
    return f"X[N, ^{{group=1}}*C, {sides}]; W[*S'', M, ^C, {kernel}], b[*S'', M] -> Y[N, ^M, *S'']"


def _pooling(op: OpView, _: Sequence[Shape | None]) -> str:
    return f"X[N, ^C, {_window(op)[0]}] -> Y[N, ^C, *S']"


def _product(op: OpView, _: Sequence[Shape | None]) -> str:
    a = "~K{axis_a=1}:1, ~M:1" if op.args.flag("trans_a", default=False) else "~M{axis_a=1}:1, ~K:1"
    b = "~N{axis_b=1}:1, ~K:1" if op.args.flag("trans_b", default=False) else "~K{axis_b=1}:1, ~N:1"
    return f"A[{a}]; B[{b}]; like[*Y] -> Y[{'M, N' if len(op.inputs) == 2 else '*Y'}]"


def _batch_product(op: OpView, _: Sequence[Shape | None]) -> str:
    if op.args.integer("broadcast", default=0):
        return "A[*A:3], B[*B:3] -> Y"
    a = "*B:1, K, M" if op.args.integer("trans_a", default=0) else "*B:1, M, K"
    b = "*B, N, K" if op.args.integer("trans_b", default=0) else "*B, K, N"
    return f"A[{a}], B[{b}] -> Y[*B, M, N]"


def _layer_norm(_: OpView, shapes: Sequence[Shape | None]) -> str:
    """Give scale and bias as many elements as the normalized dims have, usually in the same dims."""
    dims = "K?" if shapes[1:3].count(None) == len(shapes[1:3]) else "G"
    return f"X[*B{{axis=1}}:1, *K:1]; scale[*{dims}], bias[*{dims}] -> Y[*B, *K]"


def _labelled(op: OpView, _: Sequence[Shape | None]) -> str:
    """Describe labels as a class for each row, unless they are probabilities."""
    return "X, labels -> Y" if op.args.integer("label_prob", default=0) else "X, labels[*L:1] -> Y"


SIGNATURES: Final[Mapping[str, Text]] = {
    "FC FbFCPacked Int8FC": "X[*D{axis=1}, ~K:1]; W[~M{axis_w=1}, ~K:1], b[M] -> Y[*D, M]",
    "FCTransposed": "X[*D{axis=1}, ~K:1]; W[~K{axis_w=1}, ~M:1], b[M] -> Y[*D, M]",
    "MatMul": _product,
    "BatchMatMul": _batch_product,
    "DotProduct CosineSimilarity SquaredL2Distance L1Distance": "X[N, *D:1], Y[N, *D] -> Z[N]",
    "Conv Conv1D Conv2D Conv3D ConvRelu Int8Conv Int8ConvRelu": _convolution,
    "ConvTranspose Int8ConvTranspose": _transposed_convolution,
    "DeformConv": _deformable_convolution,
    "LC LC1D LC2D LC3D": _local_convolution,
    "MaxPool MaxPool1D MaxPool2D MaxPool3D AveragePool AveragePool1D AveragePool2D AveragePool3D LpPool Int8MaxPool "
    "Int8AveragePool": _pooling,
    "ResizeNearest UpsampleBilinear UpsampleNearest PadImage": "X[N, ^C, *S:2] -> Y[N, ^C, *S']",
    "Int8ResizeNearest": "X[N, *S:2, C] -> Y[N, *S', C]",
    "ResizeNearest3D": "X[N, ^C, *S:3] -> Y[N, ^C, *S']",
    "SpatialBN": "X[N, ^C, *S:2]; scale[C], bias[C], mean[C], var[C] -> Y[N, ^C, *S]",
    "InstanceNorm GroupNorm AffineChannel": "X[N, ^C, *S:2]; scale[C], bias[C] -> Y[N, ^C, *S]",
    "ChannelShuffle": "X[N, ^C, *S:2] -> Y[N, ^C, *S]",
    "NCHW2NHWC": "X[N, C, *S:2] -> Y[N, *S, C]",
    "NHWC2NCHW": "X[N, *S:2, C] -> Y[N, C, *S]",
    "LayerNorm RMSNorm": _layer_norm,
    "ElementwiseLinear": "X[*B{axis=1}:1, *K:1]; w[K], b[K] -> Y[*B, *K]",
    "PRelu": "X[N, ^C, *S]; slope[C?] -> Y[N, ^C, *S]",
    "BatchBoxCox": "X[N, D]; lambda1[D], lambda2[D] -> Y[N, D]",
    "Softmax LogSoftmax": "X[*B{axis=1}:1, *K:1] -> Y[*B, *K]",
    "SoftmaxWithLoss LabelCrossEntropy": _labelled,
}
