"""Embeddings in tensor-train format: products of small tensors, summed by segment."""

from __future__ import annotations

import math

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.segments import lengths_of, require_rows
from caffe2_torch.evaluation.values import Value
from caffe2_torch.functions.segments import segment_ids, sum_rows
from caffe2_torch.ops.sequence.segment_reduction import take_rows

family = Family("tensor_train")

_CORES = 3


@family.converts("TTSparseLengthsSum")
def sum_of_products(op: Op) -> tuple[Value, ...]:
    """Return embeddings: the product of the matrices, one of each core, that the digits of an index select."""
    counts, columns = (op.args.integers(name, default=(1,) * _CORES) for name in ("factor_i", "factor_j"))
    ranks, width = op.args.integers("ranks", default=(1,) * (_CORES + 1)), op.args.integer("emb_size", default=64)
    if len(counts) != _CORES or len(columns) != _CORES or len(ranks) != _CORES + 1 or width != math.prod(columns):
        op.refuse("factor_i, factor_j, ranks and emb_size must describe three cores")
    index, lengths = op.tensor(_CORES), lengths_of(op, _CORES + 1)
    require_rows(op, lengths, index)
    rest, digits = index, list[torch.Tensor]()
    for i in reversed(range(_CORES)):
        stride = math.prod(counts[:i])
        digits.insert(0, rest // stride)
        rest = rest % stride
    products: list[torch.Tensor] = []
    rows = 1
    for i in range(_CORES):
        chosen = take_rows(op, op.tensor(i).reshape(-1, ranks[i], columns[i] * ranks[i + 1]), digits[i])
        product = products[-1] @ chosen if products else chosen
        rows *= columns[i]
        products.append(product.reshape(index.shape[0], rows, ranks[i + 1]))
    embedding = products[-1].reshape(index.shape[0], width)
    total = sum_rows(embedding, segment_ids(lengths), lengths.shape[0])
    return total, products[0], products[1], torch.stack(digits, dim=1)
