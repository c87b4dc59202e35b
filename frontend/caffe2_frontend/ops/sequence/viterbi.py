"""Linear-chain CRF decoding: the tag sequence of the highest score (Viterbi), and scores that make a path the best."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, sub
from caffe2_frontend.emit.operand_checks import require_equal, require_rank
from caffe2_frontend.emit.shapes import cast, size_vector, squeeze, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("viterbi")

_MATRIX = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("ViterbiPath", expects={0: _MATRIX, 1: _MATRIX})
def viterbi_path(op: Op) -> Value:
    """ViterbiPath(predictions, transitions) -> viterbi_path, int32 [N].

    Predictions are the scores [N, D] of D tags at N positions, transitions [D, D] the scores from a tag to the next. A
    first Loop computes the best score of a path to each tag and its previous tag; a second one follows these back
    from the best last tag.
    """
    scores, transitions = op.input(0), op.input(1)
    for operand, what in ((scores, "predictions"), (transitions, "transitions")):
        require_rank(op, operand, 2, what)
    require_equal(op, op.static_dim(scores, 1), op.static_dim(transitions, 0), "columns of predictions and transitions")
    first = op.emit("Gather", scores, op.const(0, np.int64), axis=0)
    steps = sub(op, size_vector(op, scores, 0), 1)

    def forward(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        reached = add(inside, unsqueeze(inside, states[0], [1]), transitions)
        row = inside.emit("Gather", scores, add(inside, iteration[0], 1), axis=0)
        best = inside.emit("ReduceMax", reached, inside.const([0], np.int64), keepdims=0)
        return [add(inside, row, best)], [inside.emit("ArgMax", reached, axis=0, keepdims=0)]

    (final,), (sources,) = loop(op, steps, None, [first], forward)
    last = op.emit("ArgMax", final, axis=0, keepdims=1)

    def backward(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        row = inside.emit("Gather", sources, sub(inside, sub(inside, steps, iteration[0]), 1), axis=0)
        tag = inside.emit("Gather", squeeze(inside, row, [0]), states[0], axis=0)
        return [tag], [squeeze(inside, tag, [0])]

    _, (path,) = loop(op, steps, None, [last], backward)
    # The path was collected from its end: reverse it, x[-1:min:-1].
    reverse = (op.const([v], np.int64) for v in (-1, np.iinfo(np.int64).min, 0, -1))
    result = op.emit("Concat", op.emit("Slice", path, *reverse), last, axis=0, shape=[op.shape(scores)[0]])
    return cast(op, result, ir.DataType.INT32)


@family.converts("SwapBestPath", expects={0: _MATRIX, 1: TensorInfo(ir.DataType.INT32, (None,))})
def swap_best_path(op: Op) -> Value:
    """SwapBestPath(predictions, bestPath) -> new_predictions: exchange each row's maximum and the path's score."""
    scores = op.input(0)
    tag = unsqueeze(op, cast(op, op.input(1), INT64), [1])
    best = op.emit("ArgMax", scores, axis=1, keepdims=1)
    at_tag, at_best = (op.emit("GatherElements", scores, index, axis=1) for index in (tag, best))
    swapped = op.emit("ScatterElements", scores, best, at_tag, axis=1)
    return op.emit("ScatterElements", swapped, tag, at_best, axis=1)
