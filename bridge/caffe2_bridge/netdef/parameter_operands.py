"""Operands that hold parameters: weights, biases and statistics, which training sets and an init net fills."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from caffe2_bridge.netdef.views import OpView

_WEIGHT_AND_BIAS: Final = (1, 2)
# The indices of the operands that are parameters; the others are data.
_PARAMETERS: Final[Mapping[str, Collection[int]]] = {
    **dict.fromkeys(
        ["Conv", "Conv1D", "Conv2D", "Conv3D", "ConvRelu", "ConvTranspose", "Int8Conv", "Int8ConvRelu",
         "Int8ConvTranspose", "LC", "LC1D", "LC2D", "LC3D", "FC", "FCTransposed", "FbFCPacked", "Int8FC",
         "InstanceNorm", "GroupNorm", "AffineChannel", "LayerNorm", "RMSNorm", "ElementwiseLinear", "BatchBoxCox"],
        _WEIGHT_AND_BIAS,
    ),
    "DeformConv": (2, 3),
    "SpatialBN": range(1, 5),
    "PRelu": (1,),
    "MatMul": (1,),
    "InferenceLSTM": range(3, 64),
}  # fmt: skip
# Operators whose first operand is data.
_READERS: Final = frozenset(_PARAMETERS) - {"BatchBoxCox", "MatMul"} | {
    "MaxPool", "AveragePool", "LpPool", "LRN", "Int8MaxPool", "Int8AveragePool", "ResizeNearest", "UpsampleBilinear",
    "UpsampleNearest", "RoIAlign", "RoIPool", "RoIPoolF", "Im2Col", "PadImage", "RecurrentNetwork",
}  # fmt: skip
_BROADCASTING: Final = frozenset({"Add", "Sub", "Mul", "Div"})
# Operators whose first output is data if it is computed from their first operand.
_PASSING: Final = frozenset({
    "Alias", "Cast", "Clip", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "Dropout", "Elu",
    "EnsureCPUOutput", "Exp", "FloatToHalf", "HalfToFloat", "Int8Quantize", "LeakyRelu", "Log", "Logit", "NCHW2NHWC",
    "NHWC2NCHW", "Negative", "Normalize", "Relu", "Scale", "Sigmoid", "Softmax", "Sqr", "Sqrt", "StopGradient", "Sum",
    "Tanh", "Transpose",
})  # fmt: skip


def is_parameter_operand(op: OpView, index: int) -> bool:
    """Return whether an operand is a parameter by its index; of sums and products, the one that is broadcast."""
    if op.type in _BROADCASTING:
        return index == 1 and _is_broadcast(op)
    if op.type.startswith("SparseLengths"):
        return index == 0
    return index in _PARAMETERS.get(op.type, ())


def is_weight_operand(op: OpView, index: int) -> bool:
    """Return whether an operand is a parameter in nearly every net, as the weights of FC are (of MatMul not)."""
    return op.type != "MatMul" and index in _PARAMETERS.get(op.type, ())


def data_blobs(ops: Iterable[OpView]) -> set[str]:
    """Return the blobs that the operators read as data: features, images and sequences, not parameters.

    An operand is data if its operator has parameters and it is not one of them, or if it reaches such an operand
    through operators that compute their result of their first operand.
    """
    data: set[str] = set()
    for op in reversed(list(ops)):
        passes = op.type in _PASSING or (op.type in _BROADCASTING and _is_broadcast(op))
        if op.inputs and (op.type in _READERS or (passes and not data.isdisjoint(op.outputs))):
            data.add(op.inputs[0])
    return data


def _is_broadcast(op: OpView) -> bool:
    """Return whether the second operand is broadcast to the first one."""
    return "broadcast" in op.args and bool(op.args.integer("broadcast"))
