"""Strings, joined and filtered. Caffe2 has no operator that changes their case or splits them."""

from __future__ import annotations

import numpy as np

from caffe2_backend.emit.broadcast import broadcast
from caffe2_backend.emit.selection import concat, gather
from caffe2_backend.emit.shapes import arange, dim_of, dims_of, product, reshape
from caffe2_backend.emit.strings import is_any_of
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import STRING
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import INT64

family = Family("strings")


@family.converts("StringConcat")
def string_concat(op: Op) -> Value:
    """``StringConcat(X, Y) -> Z``: StringJoin of pairs; elements of operands that broadcast are repeated by Gather."""
    operands = [op.require(op.input(i), STRING) for i in (0, 1)]
    indices = broadcast(op, [_indices(op, value) for value in operands])
    flat = [gather(op, value.reshape([-1]), 0, at.reshape([-1])) for value, at in zip(operands, indices, strict=True)]
    pairs = op.emit("Concat", *flat, outputs=2, axis=1, add_axis=1)[0]
    joined = op.emit("StringJoin", pairs, delimiter="")
    if not max(op.rank(value) for value in operands):
        return op.emit("Squeeze", joined, dims=[0])
    return op.emit("ResizeLike", joined, indices[0])


def _indices(op: Op, value: Value) -> Value:
    """Return the index of each element in the flattened value, int64, of its shape."""
    sizes = dims_of(op, value)
    made = reshape(op, arange(op, product(op, sizes)), sizes)
    made.shape = op.shape(value)
    return made


@family.converts("StringNormalizer")
def string_normalizer(op: Op) -> Value:
    """``StringNormalizer(X; case_change_action="NONE", is_case_sensitive=0, stopwords=[]) -> Y``: BooleanMask.

    Words that are equal to a stopword are dropped; where none is left, the result is one empty string.
    """
    op.args.ignore("locale")
    stopwords = op.args.texts("stopwords", default=())
    is_case_sensitive = op.args.flag("is_case_sensitive", default=False)
    if op.args.text("case_change_action", default="NONE") != "NONE":
        op.unsupported("Caffe2 has no operator that changes the case of strings")
    if not is_case_sensitive and any(word.lower() != word.upper() for word in stopwords):
        op.unsupported("Caffe2 has no operator that compares strings without regard to case")
    x = op.require(op.input(0), STRING)
    if not stopwords:
        return op.emit("Copy", x)
    rank = op.rank(x)
    words = x.reshape([-1])
    kept = op.emit("BooleanMask", words, ~is_any_of(op, words, stopwords))
    count = dim_of(op, kept, 0)
    more = concat(op, [kept, op.const(np.array([b""], object), STRING)], 0)
    made = gather(op, more, 0, arange(op, count + count.equals(0).cast(INT64)))
    return made.reshape([1, -1]) if rank == 2 else made
