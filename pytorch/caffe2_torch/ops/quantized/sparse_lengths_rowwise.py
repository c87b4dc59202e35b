"""Embedding lookups: rows of quantized tables, gathered by indices and reduced by segment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.fused_rows import FusedRows, decode
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import dequantize_rows, segment_ids, sum_rows
from caffe2_torch.ops.quantized.rowwise import EIGHT_BITS
from caffe2_torch.ops.sequence.segment_reduction import take_rows

family = Family("sparse_lengths_rowwise")


@dataclass(frozen=True, slots=True)
class Lookup:
    """The form of an operator, whose operands are DATA[, WEIGHTS], INDICES, LENGTHS, and possibly one more.

    ``rows`` is the format of fused rows, None where the last operand is (scale, bias) per row; ``pruned`` says whether
    the last operand maps the indices to those of a table without its pruned rows.
    """

    is_mean: bool
    weighted: bool
    rows: FusedRows | None
    pruned: bool = False


def _lookups() -> dict[str, Lookup]:
    """Return the form of each operator type."""
    lookups: dict[str, Lookup] = {}
    for kind in ("Sum", "Mean", "WeightedSum", "WeightedMean"):
        is_mean, weighted = kind.endswith("Mean"), kind.startswith("Weighted")
        lookups[f"SparseLengths{kind}8BitsRowwise"] = Lookup(is_mean, weighted, None)
        for rows in (FusedRows(2, torch.float16), FusedRows(4, torch.float16), EIGHT_BITS):
            if kind != "WeightedMean":
                name = f"SparseLengths{kind}"
                lookups[f"{name}Fused{rows.bits}BitRowwise"] = Lookup(is_mean, weighted, rows)
                lookups[f"{name}{rows.bits}BitRowwiseSparse"] = Lookup(is_mean, weighted, rows, pruned=True)
    return lookups


LOOKUPS: Final = _lookups()


@family.converts(*LOOKUPS)
def reduce_looked_up(op: Op) -> Value:
    """Reduce rows; pruned ones contribute nothing, but count in the divisor of a mean."""
    lookup = LOOKUPS[op.type]
    first = 1 + lookup.weighted
    table, index, lengths = op.tensor(0), op.tensor(first).to(torch.int64), lengths_of(op, first + 1)
    require_rows(op, lengths, index)
    weights, ids = op.tensor(1) if lookup.weighted else None, segment_ids(lengths)
    if lookup.pruned:
        mapping = op.tensor(first + 2)
        if mapping.shape != (1,) or int(mapping[0]) != 0:  # else nothing is pruned
            index = take_rows(op, mapping, index).to(torch.int64)
            kept = index >= 0
            index, ids = index[kept], ids[kept]
            weights = None if weights is None else weights[kept]
    if lookup.rows is not None:
        rows = decode(op, take_rows(op, table, index), lookup.rows, weights)
    else:
        scale_bias = take_rows(op, op.tensor(first + 2), index)
        scale_bias = scale_bias if weights is None else scale_bias * weights.reshape(-1, 1)
        rows = dequantize_rows(take_rows(op, table, index), scale_bias)
    total = sum_rows(rows, ids, lengths.shape[0])
    if lookup.is_mean:
        total = total / lengths.clamp(min=1).reshape(-1, *[1] * (rows.dim() - 1))
    return total


@family.converts("SparseLengthsSumSparseLookup")
def look_up_mapping(op: Op) -> tuple[Value, ...]:
    """Return the mapped indices without those that map to -1, and the lengths and weights of what is left."""
    index, lengths, mapping = op.tensor(0), lengths_of(op, 1), op.tensor(2)
    mapped = take_rows(op, mapping, index)
    kept = mapped != -1
    counts = torch.bincount(segment_ids(lengths)[kept], minlength=lengths.shape[0]).to(torch.int32)
    weights = (op.tensor(3)[kept],) if op.has(3) else ()
    return mapped[kept].to(index.dtype), counts, *weights
