"""Sparse and dense forms of features, and their transformations."""

from __future__ import annotations

from caffe2_torch.source.names import literal
from caffe2_torch.source.op import Family, Source, SourceOp

family = Family("sparse")


@family.emits("SparseToDense")
def sparse_to_dense(op: SourceOp) -> Source:
    rows = op.args.integer("output_first_dim", default=0)
    text = str(rows)
    if rows <= 0:
        text = f"{op.x(2)}.shape[0]" if op.has(2) else op.call("segment_count", op.x(0))
    return op.call("sum_rows", op.x(1), op.index(0), text)


@family.emits("BatchSparseToDense")
def batch_sparse_to_dense(op: SourceOp) -> Source:
    width, default = op.args.integer("dense_last_dim", default=-1), op.args.number("default_value", default=0.0)
    text = f"{op.x(3)}.shape[1]" if width == -1 and op.has(3) else str(width)
    return op.call("scatter_segments", op.x(2), op.index(1), op.x(0), text, default=default)


@family.emits("Bucketize")
def bucketize(op: SourceOp) -> Source:
    boundaries = f"torch.tensor([{', '.join(map(literal, op.args.numbers('boundaries')))}]{op.device_of(0)})"
    x = op.x(0)
    # No boundary is below a NaN.
    return f"torch.bucketize({x}, {boundaries}, out_int32=True).masked_fill({x}.isnan(), 0)"


@family.emits("BatchBoxCox")
def box_cox(op: SourceOp) -> Source:
    op.args.ignore("naive", "min_block_size")
    return op.call("box_cox", *op.operands)


@family.emits("ReplaceNaN")
def replace_nan(op: SourceOp) -> Source:
    return f"{op.x(0)}.masked_fill({op.x(0)}.isnan(), {literal(op.args.number('value', default=0.0))})"
