"""Embeddings in tensor-train format: products of small tensors, summed by segment."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.operand_checks import require_dtype, require_rank
from caffe2_frontend.emit.rows.segments import vector_operand
from caffe2_frontend.emit.shapes import reshape, size, unsqueeze
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.sequence.segment_reduction import reduce_rows, segments_by_lengths

family = Family("tensor_train")

_CORES = 3


@family.converts(
    "TTSparseLengthsSum",
    expects={
        **dict.fromkeys(range(_CORES), TensorInfo(ir.DataType.FLOAT)),
        3: TensorInfo(ir.DataType.INT64, (None,)),
        4: TensorInfo(ir.DataType.INT32, (None,)),
    },
)
def sum_of_products(op: Op) -> tuple[Value, ...]:
    """TTSparseLengthsSum(core0, core1, core2, indices, lengths; factor_i, factor_j, ranks, emb_size=64) -> Y, ...

    An index is a number in the mixed radix of factor_i (1, 1, 1), one digit per core. The digits select a matrix
    [ranks[i], factor_j[i] * ranks[i + 1]] of each core, and the product of these matrices is the embedding of
    factor_j[0] * factor_j[1] * factor_j[2] = emb_size elements. The other outputs are the products of the first core
    and of the first two, and the digits.
    """
    counts, columns = (op.args.integers(name, default=(1,) * _CORES) for name in ("factor_i", "factor_j"))
    ranks = op.args.integers("ranks", default=(1,) * (_CORES + 1))
    width = op.args.integer("emb_size", default=64)
    shapes = [len(counts), len(columns), len(ranks) - 1]
    if shapes != [_CORES] * 3 or ranks[0] != 1 or ranks[-1] != 1 or width != prod(columns):
        op.unsupported(
            f"factor_i {list(counts)}, factor_j {list(columns)}, ranks {list(ranks)} and emb_size {width} must "
            f"describe {_CORES} cores: three factors each, four ranks of which the first and the last are 1, and "
            "emb_size the product of factor_j",
            code="invalid-argument",
        )
    strides = [prod(counts[:i]) for i in range(_CORES)]
    if 0 in strides:
        op.unsupported(f"factor_i must number rows of the first cores, not {list(counts)}", code="invalid-argument")
    indices = op.input(_CORES)
    require_dtype(op, indices, (ir.DataType.INT64,), "indices")
    require_rank(op, indices, 1, "indices")
    digits: list[Value] = []
    rest = indices
    for stride in reversed(strides):
        digits.insert(0, op.emit("Div", rest, op.const(stride, np.int64)))
        rest = op.emit("Mod", rest, op.const(stride, np.int64))
    # Multiply from the left: [N, rows, ranks[i]] @ [N, ranks[i], columns * ranks[i + 1]], and merge rows and columns.
    products: list[Value] = []
    rows = 1
    for i in range(_CORES):
        core = reshape(op, op.input(i), [-1, ranks[i], columns[i] * ranks[i + 1]])
        chosen = op.emit("Gather", core, digits[i], axis=0)
        product = op.emit("MatMul", products[-1], chosen) if products else chosen
        rows *= columns[i]
        products.append(reshape(op, product, [size(op, indices, 0), rows, ranks[i + 1]]))
    embedding = reshape(op, products[-1], [size(op, indices, 0), width])
    segments = segments_by_lengths(op, vector_operand(op, _CORES + 1), embedding)
    table = op.emit("Concat", *(unsqueeze(op, digit, [1]) for digit in digits), axis=1)
    return reduce_rows(op, embedding, segments, "Sum"), products[0], products[1], table
