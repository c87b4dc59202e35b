"""Embedding lookups: rows of quantized tables, gathered by indices and reduced by segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.emit.operand_checks import INDICES, require_dim, require_dtype, require_equal, require_rank
from caffe2_frontend.emit.rows.segments import row_segments, scatter_rows, take_rows, vector_operand, weigh
from caffe2_frontend.emit.shapes import cast, size
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.quantized.fused_rows import FusedRows, look_up
from caffe2_frontend.ops.quantized.rowwise import EIGHT_BITS, dequantize_rows
from caffe2_frontend.ops.sequence.segment_reduction import Reduction, Segments, reduce_rows, segments_by_lengths

family = Family("sparse_lengths_rowwise")

_FLOAT, _INT32, _INT64, _UINT8 = ir.DataType.FLOAT, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.UINT8


@dataclass(frozen=True, slots=True)
class Lookup:
    """The form of an operator, whose operands are DATA[, WEIGHTS], INDICES, LENGTHS, and possibly one more.

    Attributes:
        reduction: the reduction of a segment.
        weighted: whether each row is multiplied by a weight.
        rows: the format of fused rows; None if the last operand is (scale, bias) per row.
        pruned: whether the last operand maps the indices to those of a table without its pruned rows.
    """

    reduction: Reduction
    weighted: bool
    rows: FusedRows | None
    pruned: bool = False

    @property
    def indices(self) -> int:
        """The index of the operand INDICES, which LENGTHS and the last operand follow."""
        return 1 + self.weighted


def _lookups() -> dict[str, Lookup]:
    """Return the form of each operator type."""
    lookups: dict[str, Lookup] = {}
    kinds: tuple[tuple[str, Reduction, bool], ...] = (
        ("Sum", "Sum", False),
        ("Mean", "Mean", False),
        ("WeightedSum", "Sum", True),
        ("WeightedMean", "Mean", True),
    )
    for kind, reduction, weighted in kinds:
        lookups[f"SparseLengths{kind}8BitsRowwise"] = Lookup(reduction, weighted, None)
        for rows in (FusedRows(2, ir.DataType.FLOAT16), FusedRows(4, ir.DataType.FLOAT16), EIGHT_BITS):
            if kind != "WeightedMean":
                lookups[f"SparseLengths{kind}Fused{rows.bits}BitRowwise"] = Lookup(reduction, weighted, rows)
                lookups[f"SparseLengths{kind}{rows.bits}BitRowwiseSparse"] = Lookup(
                    reduction, weighted, rows, pruned=True
                )
    return lookups


LOOKUPS: Final = _lookups()


def _operand(op: OpView, index: int) -> TensorInfo:
    """Describe the operands by the form of the operator."""
    lookup = LOOKUPS[op.type]
    if index == 0:
        return TensorInfo(_UINT8, None if lookup.rows is None else (None, None))
    if index < lookup.indices:
        return TensorInfo(_FLOAT, (None,))
    if index == lookup.indices:
        return TensorInfo(_INT64, (None,))
    return (
        TensorInfo(_INT32, (None,)) if index == lookup.indices + 1 or lookup.pruned else TensorInfo(_FLOAT, (None, 2))
    )


@family.converts(*LOOKUPS, expects=_operand)
def reduce_looked_up(op: Op) -> Value:
    """Look up rows and reduce them. <R> is Sum, Mean, WeightedSum or, for 8BitsRowwise alone, WeightedMean.

    SparseLengths<R>8BitsRowwise(DATA[, WEIGHTS], INDICES, LENGTHS, scale_bias) -> output.
    SparseLengths<R>Fused{2,4,8}BitRowwise(DATA[, WEIGHTS], INDICES, LENGTHS) -> output.
    SparseLengths<R>{2,4,8}BitRowwiseSparse(DATA[, WEIGHTS], INDICES, LENGTHS, COMPRESSED_INDICES_MAPPING) -> output.

    Pruned rows contribute nothing, but count in the divisor of a mean.
    """
    lookup = LOOKUPS[op.type]
    table, indices = op.input(0), op.input(lookup.indices)
    require_dtype(op, table, (_UINT8,), "data")
    require_dtype(op, indices, INDICES, "indices")
    require_rank(op, indices, 1, "indices")
    weights = op.input(1) if lookup.weighted else None
    segments = segments_by_lengths(op, vector_operand(op, lookup.indices + 1), indices)
    if lookup.pruned:
        indices, weights, segments = _drop_pruned(op, op.input(lookup.indices + 2), indices, weights, segments)
    if lookup.rows is not None:
        require_rank(op, table, 2, "data")
        rows = look_up(op, table, indices, lookup.rows, weights)
    else:
        scale_bias = op.input(lookup.indices + 2)
        require_rank(op, scale_bias, 2, "scale_bias")
        require_dim(op, scale_bias, 1, 2, "scale_bias")
        require_equal(op, op.static_dim(scale_bias, 0), op.static_dim(table, 0), "rows of DATA and scale_bias")
        scale_bias = take_rows(op, scale_bias, indices)
        if weights is not None:
            scale_bias = weigh(op, scale_bias, weights)
        rows = dequantize_rows(op, take_rows(op, table, indices), scale_bias)
    return reduce_rows(op, rows, segments, lookup.reduction)


def _drop_pruned(
    op: Op, mapping: Value, indices: Value, weights: Value | None, segments: Segments
) -> tuple[Value, Value | None, Segments]:
    """Map indices of the full table to those of the pruned one, and drop those that map to -1.

    The mapping [0], one element, means that nothing is pruned.
    """
    mapping, indices = cast(op, mapping, _INT64), cast(op, indices, _INT64)
    unpruned = op.emit(
        "And",
        op.emit("Equal", op.emit("Shape", mapping), op.const([1], np.int64)),
        op.emit("Equal", op.emit("Slice", mapping, *(op.const([v], np.int64) for v in (0, 1))), op.const(0, np.int64)),
    )
    mapped = take_rows(op, mapping, op.emit("Where", unpruned, op.const(0, np.int64), indices))
    rows = op.emit("Where", unpruned, indices, mapped)
    kept = op.emit("GreaterOrEqual", rows, op.const(0, np.int64))
    rows, ids = (op.emit("Compress", v, kept, axis=0) for v in (rows, segments.ids))
    if weights is not None:
        weights = op.emit("Compress", weights, kept, axis=0)
    return rows, weights, Segments(ids, segments.count, segments.lengths)


@family.converts(
    "SparseLengthsSumSparseLookup",
    expects={
        0: TensorInfo(_INT64, (None,)),
        1: TensorInfo(_INT32, (None,)),
        2: TensorInfo(_INT32, (None,)),
        3: TensorInfo(_FLOAT, (None,)),
    },
)
def look_up_mapping(op: Op) -> tuple[Value, ...]:
    """SparseLengthsSumSparseLookup(INDICES, LENGTHS, COMPRESSED_INDICES_MAPPING[, WEIGHTS]) -> (outputs).

    The outputs are the mapped indices without those that map to -1, and the lengths and weights of what is left.
    """
    indices, lengths, mapping = op.input(0), vector_operand(op, 1), op.input(2)
    require_dtype(op, indices, INDICES, "indices")
    require_rank(op, indices, 1, "indices")
    mapped = take_rows(op, mapping, indices)
    kept = op.emit("Not", op.emit("Equal", mapped, op.const(-1, mapping)))
    ids = row_segments(op, lengths, size(op, indices, 0))
    counts = scatter_rows(op, cast(op, kept, _INT64), ids, size(op, lengths, 0), "add")
    outputs = [op.emit("Compress", cast(op, mapped, op.dtype(indices)), kept, axis=0), cast(op, counts, _INT32)]
    if op.has_input(3):
        outputs.append(op.emit("Compress", op.input(3), kept, axis=0))
    return tuple(outputs)
