"""All pairs of the elements of vectors: their differences, and which of two labels is the larger."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import binary, sub
from caffe2_frontend.emit.shapes import cast, indices, size, unsqueeze
from caffe2_frontend.lowering.op import Op, Value


def differences(op: Op, x: Value) -> Value:
    """``x_i - x_j`` for all pairs of elements of the last dim of ``x`` [..., N]; [..., N, N]."""
    return sub(op, unsqueeze(op, x, [-1]), unsqueeze(op, x, [-2]))


def ordered_labels(op: Op, labels: Value) -> tuple[Value, Value]:
    """How PairWiseLoss orders the labels [..., N]: which pairs it counts, bool, and their signs, float; [..., N, N].

    It visits each pair once, the later element first, and leaves out a pair whose labels differ by less than epsilon.
    The sign is 1 where the label of the later element is larger, and -1 elsewhere: also where both are infinite, or
    one is a NaN, which pairs count. Here the matrix holds each pair twice, with opposite signs.
    """
    first, second = unsqueeze(op, labels, [-1]), unsqueeze(op, labels, [-2])
    place = indices(op, size(op, labels, op.rank(labels) - 1))
    neither = cast(op, op.emit("Sign", op.emit("Neg", differences(op, place))), ir.DataType.FLOAT)
    one, minus = op.const(1, np.float32), op.const(-1, np.float32)
    falling = op.emit("Where", op.emit("Less", first, second), minus, neither)
    signs = op.emit("Where", op.emit("Greater", first, second), one, falling)
    distance = op.emit("Abs", sub(op, first, second))
    alike = binary(op, "Less", distance, float(np.finfo(np.float32).eps))
    same_element = op.emit("Not", cast(op, signs, ir.DataType.BOOL))
    return op.emit("Not", op.emit("Or", alike, same_element)), signs
