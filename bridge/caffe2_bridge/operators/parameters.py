"""Operands that hold parameters: weights, biases and statistics, which training sets and an init net fills."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators.describe import has_parameters, is_parameter

# Operators without parameters whose first operand is data.
_READERS: Final = frozenset({
    "MaxPool", "AveragePool", "LpPool", "LRN", "Int8MaxPool", "Int8AveragePool", "ResizeNearest", "UpsampleBilinear",
    "UpsampleNearest", "RoIAlign", "RoIPool", "RoIPoolF", "Im2Col", "PadImage", "RecurrentNetwork",
})  # fmt: skip
# Operators whose parameters are often computed.
_PRODUCTS: Final = frozenset({"BatchBoxCox", "MatMul"})
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
    return is_parameter(op.type, index)


def is_weight_operand(op: OpView, index: int) -> bool:
    """Return whether an operand is a parameter in nearly every net, as the weights of FC are (of MatMul not)."""
    return op.type != "MatMul" and is_parameter(op.type, index)


def data_blobs(ops: Iterable[OpView]) -> set[str]:
    """Return the blobs that the operators read as data: features, images and sequences, not parameters.

    An operand is data if its operator has parameters and it is not one of them, or if it reaches such an operand
    through operators that compute their result of their first operand.
    """
    data: set[str] = set()
    for op in reversed(list(ops)):
        passes = op.type in _PASSING or (op.type in _BROADCASTING and _is_broadcast(op))
        reads = op.type in _READERS or (op.type not in _PRODUCTS and has_parameters(op.type))
        if op.inputs and (reads or (passes and not data.isdisjoint(op.outputs))):
            data.add(op.inputs[0])
    return data


def _is_broadcast(op: OpView) -> bool:
    """Return whether the second operand is broadcast to the first one."""
    return "broadcast" in op.args and bool(op.args.integer("broadcast"))
