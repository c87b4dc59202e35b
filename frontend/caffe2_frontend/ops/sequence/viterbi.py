"""The best path through scores and transitions, and scores changed so that it wins."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import add, sub
from caffe2_frontend.emit.operand_checks import require_rank
from caffe2_frontend.emit.shapes import cast, size_vector, squeeze, unsqueeze
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.interop.types import INT64, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("viterbi")

_MATRIX = TensorInfo(ir.DataType.FLOAT, (None, None))


@family.converts("ViterbiPath", expects={0: _MATRIX, 1: _MATRIX})
def viterbi_path(op: Op) -> Value:
    """The tag of each row of scores [N, D], with transitions [D, D] from a tag to the next: one Loop on, one back."""
    scores, transitions = op.input(0), op.input(1)
    for operand, what in ((scores, "the scores"), (transitions, "the transitions")):
        require_rank(op, operand, 2, what)
    tags, moves = op.static_dim(scores, 1), op.static_dim(transitions, 0)
    if tags is not None and moves is not None and tags != moves:
        op.unsupported(f"{tags} tags have no transitions from {moves}", code="invalid-operands")
    first = op.emit("Gather", scores, op.const(0, np.int64), axis=0)
    steps = sub(op, size_vector(op, scores, 0), 1)

    def forward(inside: Op, states: list[Value], numbers: list[Value]) -> tuple[list[Value], list[Value]]:
        reached = add(inside, unsqueeze(inside, states[0], [1]), transitions)
        row = inside.emit("Gather", scores, add(inside, numbers[0], 1), axis=0)
        best = inside.emit("ReduceMax", reached, inside.const([0], np.int64), keepdims=0)
        return [add(inside, row, best)], [inside.emit("ArgMax", reached, axis=0, keepdims=0)]

    (final,), (sources,) = loop(op, steps, None, [first], forward)
    last = op.emit("ArgMax", final, axis=0, keepdims=1)

    def backward(inside: Op, states: list[Value], numbers: list[Value]) -> tuple[list[Value], list[Value]]:
        row = inside.emit("Gather", sources, sub(inside, sub(inside, steps, numbers[0]), 1), axis=0)
        tag = inside.emit("Gather", squeeze(inside, row, [0]), states[0], axis=0)
        return [tag], [squeeze(inside, tag, [0])]

    _, (path,) = loop(op, steps, None, [last], backward)
    reverse = (op.const([v], np.int64) for v in (-1, np.iinfo(np.int64).min, 0, -1))
    result = op.emit("Concat", op.emit("Slice", path, *reverse), last, axis=0, shape=[op.shape(scores)[0]])
    return cast(op, result, ir.DataType.INT32)


@family.converts("SwapBestPath", expects={0: _MATRIX, 1: TensorInfo(ir.DataType.INT32, (None,))})
def swap_best_path(op: Op) -> Value:
    """In each row, the largest score and that of the path's tag are exchanged."""
    scores = op.input(0)
    tag = unsqueeze(op, cast(op, op.input(1), INT64), [1])
    best = op.emit("ArgMax", scores, axis=1, keepdims=1)
    at_tag, at_best = (op.emit("GatherElements", scores, place, axis=1) for place in (tag, best))
    swapped = op.emit("ScatterElements", scores, best, at_tag, axis=1)
    return op.emit("ScatterElements", swapped, tag, at_best, axis=1)
