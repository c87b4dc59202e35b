"""Decoders of connectionist temporal classification (CTC): from label probabilities per step to label sequences.

Label 0 is the blank.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import REALS, require_rank, takes
from caffe2_frontend.emit.shapes import cast, indices, size, unsqueeze, vector
from caffe2_frontend.interop.types import INT32, TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.sequence.ctc_beam_search import beam_search

family = Family("ctc")

_OPERANDS = {0: TensorInfo(ir.DataType.FLOAT, (None,) * 3), 1: TensorInfo(INT32, (None,))}


def _running(op: Op, inputs: Value) -> Value:
    """Mask the steps that belong to the sequences, [T, N] bool: all of them without the operand SEQ_LEN."""
    steps, batch = size(op, inputs, 0), size(op, inputs, 1)
    step = unsqueeze(op, indices(op, steps), [1])
    lengths = op.optional(1)
    if lengths is None:
        limit = vector(op, [steps])
        return op.emit("Less", op.emit("Expand", step, vector(op, [steps, batch])), limit)
    return op.emit("Less", step, cast(op, lengths, ir.DataType.INT64))


@family.converts("CTCGreedyDecoder", expects=_OPERANDS)
@takes(REALS, 0)
def ctc_greedy_decoder(op: Op) -> tuple[Value, Value]:
    """CTCGreedyDecoder(INPUTS[, SEQ_LEN]; merge_repeated=1) -> OUTPUT_LEN, VALUES.

    INPUTS are scores [T, N, C]. The most probable label of each step is kept unless it is the blank or, with
    merge_repeated, equal to that of the step before. VALUES is the concatenation of the N sequences.
    """
    merge = op.args.flag("merge_repeated", default=True)
    inputs = op.input(0)
    require_rank(op, inputs, 3, "INPUTS")
    labels = op.emit("Transpose", op.emit("ArgMax", inputs, axis=2, keepdims=0), perm=[1, 0])
    kept = op.emit(
        "And",
        op.emit("Transpose", _running(op, inputs), perm=[1, 0]),
        op.emit("Cast", labels, to=int(ir.DataType.BOOL)),
    )
    if merge:
        # The labels one step later; a label at step 0 is compared with the blank.
        shifted = op.emit("Pad", labels, op.const([0, 1, 0, -1], np.int64))
        kept = op.emit("And", kept, op.emit("Not", op.emit("Equal", labels, shifted)))
    counts = op.emit("ReduceSum", cast(op, kept, INT32), op.const([1], np.int64), keepdims=0)
    flat, mask = (op.emit("Reshape", v, op.const([-1], np.int64)) for v in (labels, kept))
    return counts, cast(op, op.emit("Compress", flat, mask, axis=0), INT32)


@family.converts("CTCBeamSearchDecoder", expects=_OPERANDS)
@takes(REALS, 0)
def ctc_beam_search_decoder(op: Op) -> tuple[Value, Value, Value]:
    """CTCBeamSearchDecoder(INPUTS[, SEQ_LEN]; beam_width=10, num_candidates=1, prune_threshold=0.001) -> (outputs).

    The outputs are OUTPUT_LEN [N * num_candidates], VALUES (the concatenated labels) and OUTPUT_PROB
    [N * num_candidates], of the most probable label sequences, best first. INPUTS are probabilities [T, N, C].
    """
    width, count = op.args.integer("beam_width", default=10), op.args.integer("num_candidates", default=1)
    threshold = op.args.number("prune_threshold", default=0.001)
    if width <= 0 or count <= 0:
        op.unsupported(f"beam_width ({width}) and num_candidates ({count}) must be positive", code="invalid-argument")
    require_rank(op, op.input(0), 3, "INPUTS")
    labels, lengths, probabilities = beam_search(op, op.input(0), _running(op, op.input(0)), width, count, threshold)
    inside = op.emit("Less", indices(op, size(op, labels, 2)), unsqueeze(op, lengths, [2]))
    flat, mask = (op.emit("Reshape", v, op.const([-1], np.int64)) for v in (labels, inside))
    values = cast(op, op.emit("Compress", flat, mask, axis=0), INT32)
    flat_lengths, flat_probabilities = (
        op.emit("Reshape", v, op.const([-1], np.int64)) for v in (lengths, probabilities)
    )
    return cast(op, flat_lengths, INT32), values, flat_probabilities
