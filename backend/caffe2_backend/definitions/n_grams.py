"""Counts of n-grams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import Family
from caffe2_frontend.interop.operator_base import bounded

family = Family("")

FLOAT = ir.DataType.FLOAT
_LARGEST: Final = 1 << 31  # columns of the output


@family.defines("TfIdfVectorizer")
def tf_idf_vectorizer(define: Definition) -> ir.Value:
    """``TfIdfVectorizer(X; mode, pool_int64s, ngram_counts, ngram_indexes, weights, ...) -> Y``, of integers.

    Each run of n elements, adjacent or with gaps of one length, is compared with every n-gram of the pool.
    """
    pool, counts = define.integers("pool_int64s"), define.integers("ngram_counts")
    length = define.dims(0)[-1]
    if not pool or not isinstance(length, int):
        define.undefined()
    shortest, longest = define.required("min_gram_length"), define.required("max_gram_length")
    _require_pool(define, counts, len(pool))
    x = define.cast(define.input(0), ir.DataType.INT64)
    parts = []
    for size, (start, end) in enumerate(pairwise([*counts, len(pool)]), 1):
        grams = np.array(pool[start:end], np.int64).reshape(-1, size)
        # Gaps wider than the row leave no n-grams.
        gaps = range(min(define.required("max_skip_count"), length) + 1 if size > 1 else 1)
        bounded(len(gaps), length, size)
        strides = [gap + 1 for gap in gaps if shortest <= size <= longest]
        parts.append(_matches(define, x, _runs(define, length, size, strides), grams))
    found = define("Concat", *parts, axis=-1)
    indices = define.integers("ngram_indexes")
    bounded(len(indices), max(indices) + 1)
    chosen = np.zeros((len(indices), max(indices) + 1), np.float32)
    weights = define.numbers("weights") or [1.0] * len(indices)
    mode = define.text("mode", "TF")
    chosen[np.arange(len(indices)), indices] = 1.0 if mode == "TF" else weights
    if mode == "IDF":
        found = define.cast(define("Greater", found, define.const(0.0, FLOAT)), FLOAT)
    return define("MatMul", found, define.const(chosen, FLOAT))


def _require_pool(define: Definition, counts: Sequence[int], count: int) -> None:
    """Refuse a node whose pool does not consist of n-grams, one for each index and each weight."""
    bounds = [*counts, count]
    grams = 0
    for size, (start, end) in enumerate(pairwise(bounds), 1):
        if not 0 <= start <= end or (end - start) % size:
            define.refuse(f"'ngram_counts' must start n-grams in a pool of {count} elements, and is {list(counts)}")
        grams += (end - start) // size
    indices, weights = define.integers("ngram_indexes"), define.numbers("weights")
    if not grams:
        define.refuse("the pool must have an n-gram")
    define.require_lengths(grams, {"ngram_indexes": indices})
    define.require_lengths(grams, {"weights": weights}, optional=True)
    define.require_range("ngram_indexes", indices, _LARGEST)


def _runs(define: Definition, length: int, size: int, strides: Sequence[int]) -> ir.Value | None:
    """Return the indices of all runs of ``size`` elements that are so far apart, [runs, size]; None if there are none.

    They are computed as the net runs: of a long row they take more memory than the model.
    """
    parts = []
    for stride in strides:
        count = length - (size - 1) * stride
        if count > 0:
            starts = define("Range", define.const(0), define.const(count), define.const(1))
            parts.append(
                define("Add", define("Unsqueeze", starts, define.ints(-1)), define.const(np.arange(size) * stride))
            )
    return define("Concat", *parts, axis=0) if parts else None


def _matches(define: Definition, x: ir.Value, runs: ir.Value | None, grams: np.ndarray) -> ir.Value:
    """Return how many runs are equal to each n-gram, [..., n-grams]."""
    if runs is None or not len(grams):
        zeros = define("ReduceSum", define("Mul", x, define.const(0)), define.ints(-1), keepdims=1)
        return define("Mul", define.cast(zeros, FLOAT), define.const(np.zeros(len(grams)), FLOAT))
    windows = define("Unsqueeze", define("Gather", x, runs, axis=-1), define.ints(-2))
    same = define.cast(define("Equal", windows, define.const(grams)), FLOAT)
    is_equal = define("ReduceMin", same, define.ints(-1), keepdims=0)
    return define("ReduceSum", is_equal, define.ints(-2), keepdims=0)
