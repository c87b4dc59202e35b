"""Metrics of predictions: accuracies and average precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, div, mul
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import cast, indices, size, size_vector, slice_axis, unsqueeze
from caffe2_frontend.interop.types import FLOAT, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("metric")

_SCORES = TensorInfo(FLOAT, (None, None))
_LABELS = TensorInfo(ir.DataType.INT32, (None,))


@family.converts("Accuracy", expects={0: _SCORES, 1: _LABELS})
def accuracy(op: Op) -> Value:
    """Accuracy(scores, labels; top_k=1) -> accuracy.

    A row counts if fewer than ``top_k`` classes precede its label's: those with a higher score, and of equal scores
    those with a lower index.
    """
    top_k = op.args.integer("top_k", default=1)
    scores, labels = op.input(0), op.input(1)
    label = unsqueeze(op, cast(op, labels, ir.DataType.INT64), [1])
    own = op.emit("GatherElements", scores, label, axis=1)
    classes = indices(op, size(op, scores, 1))
    tied = op.emit("And", op.emit("Equal", scores, own), op.emit("Less", classes, label))
    precedes = cast(op, op.emit("Or", op.emit("Greater", scores, own), tied), ir.DataType.INT64)
    before = op.emit("ReduceSum", precedes, op.const([1], np.int64), keepdims=0)
    correct = cast(op, op.emit("Less", before, op.const(top_k, np.int64)), FLOAT)
    return div(op, op.emit("ReduceSum", correct, keepdims=0), cast(op, op.emit("Size", labels), FLOAT))


@family.converts("MultiClassAccuracy", expects={0: _SCORES, 1: _LABELS})
def multi_class_accuracy(op: Op) -> tuple[Value, Value]:
    """MultiClassAccuracy(scores, labels) -> accuracies, amounts.

    Both [classes]: the share of each class's rows whose highest score is that class, and the number of those rows.
    """
    scores, labels = op.input(0), cast(op, op.input(1), ir.DataType.INT64)
    best = op.emit("ArgMax", scores, axis=1, keepdims=0)
    classes = op.emit("Shape", scores, start=1, end=2)
    zeros = op.emit("Expand", op.const([0.0], np.float32), classes, shape=[op.shape(scores)[1]])
    counts = [
        op.emit("ScatterElements", zeros, labels, value, axis=0, reduction="add")
        for value in (
            cast(op, op.emit("Equal", best, labels), FLOAT),
            op.emit("Expand", op.const([1.0], np.float32), op.emit("Shape", labels), shape=op.shape(labels)),
        )
    ]
    correct, amounts = counts
    rate = op.emit("Div", correct, op.emit("Max", amounts, op.const([1.0], np.float32)))
    return rate, cast(op, amounts, ir.DataType.INT32)


@family.converts("APMeter", expects={0: _SCORES, 1: TensorInfo(ir.DataType.INT32, (None, None))})
def average_precision(op: Op) -> Value:
    """APMeter(scores, labels; buffer_size=1000) -> average_precision.

    Computed per class over the last ``buffer_size`` rows: the mean of the precision at the rank of each positive row.
    Caffe2 keeps the rows of earlier runs in the buffer; an ONNX model has no state, and sees those of this run only.
    """
    buffer = op.args.integer("buffer_size", default=1000)
    if buffer <= 0:
        op.unsupported(f"buffer_size must be positive, not {buffer}", code="invalid-argument")
    for index, what in enumerate(("scores", "labels")):
        require_rank(op, op.input(index), 2, what)
    scores, labels = (slice_axis(op, op.input(i), 0, -buffer, np.iinfo(np.int64).max) for i in (0, 1))
    rows = size_vector(op, scores, 0)
    _, order = op.emit("TopK", scores, rows, axis=0, largest=1, sorted=1, outputs=2)
    truth = cast(op, op.emit("GatherElements", labels, order, axis=0), FLOAT)
    hits = op.emit("CumSum", truth, op.const(0, np.int64))
    ranks = cast(op, add(op, indices(op, size(op, scores, 0)), 1), FLOAT)
    precision = div(op, hits, unsqueeze(op, ranks, [1]))
    positive = cast(op, op.emit("Equal", truth, op.const(1.0, np.float32)), FLOAT)
    axes = op.const([0], np.int64)
    count = op.emit("ReduceSum", positive, axes, keepdims=0)
    total = op.emit("ReduceSum", mul(op, precision, positive), axes, keepdims=0)
    return div(op, total, op.emit("Max", count, op.const([1.0], np.float32)))
