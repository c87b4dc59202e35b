"""Probabilities of classes from those of each two of them, by pairwise coupling.

Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004), the second method,
as libsvm and onnxruntime iterate it: until no class is off by more than a bound, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition

FLOAT = ir.DataType.FLOAT
_MOST_ITERATIONS: Final = 100
_MOST_CLASSES: Final = 32  # a step is emitted for each
_TOLERANCE: Final = 0.005


def coupled(define: Definition, pairs: ir.Value, classes: int) -> ir.Value:
    """Return the probabilities of classes [N, C], from that of the first class of each pair, [N, C * (C - 1) / 2].

    With R the probability of i in its pair with j, Q = -R * R^T, and Q_ii is the sum of R_ji squared: the probabilities
    p minimize p^T Q p. Each step minimizes it in one of them, and scales all so that their sum is one.
    """
    if classes > _MOST_CLASSES:
        define.undefined()
    q = _quadratic_form(define, pairs, classes)
    rows = [
        define("Squeeze", row, define.ints(1))
        for row in define.several(classes, "Split", q, axis=1, num_outputs=classes)
    ]
    own = [define("Slice", row, define.ints(t), define.ints(t + 1), define.ints(1)) for t, row in enumerate(rows)]
    units = [define.const(np.eye(classes)[t : t + 1], FLOAT) for t in range(classes)]
    one, two = define.const(1.0, FLOAT), define.const(2.0, FLOAT)
    tolerance = define.const(_TOLERANCE / classes, FLOAT)

    def step(formals: Sequence[ir.Value]) -> list[ir.Value]:
        before = p = formals[2]
        p.type, p.shape = ir.TensorType(FLOAT), ir.Shape([None, classes])
        products = define(
            "ReduceSum", define("Mul", q, define("Unsqueeze", p, define.ints(1))), define.ints(2), keepdims=0
        )
        total = define("ReduceSum", define("Mul", p, products), define.ints(1), keepdims=1)
        error = define("ReduceMax", define("Abs", define("Sub", products, total)), define.ints(1), keepdims=1)
        is_off = define("GreaterOrEqual", error, tolerance)
        for t in range(classes):
            product = define("Slice", products, define.ints(t), define.ints(t + 1), define.ints(1))
            change = define("Div", define("Sub", total, product), own[t])
            scale = define("Add", one, change)
            p = define("Div", define("Add", p, define("Mul", change, units[t])), scale)
            more = define("Mul", change, define("Add", define("Mul", change, own[t]), define("Mul", two, product)))
            total = define("Div", define("Add", total, more), define("Mul", scale, scale))
            products = define("Div", define("Add", products, define("Mul", change, rows[t])), scale)
        largest = define("ReduceMax", define.cast(is_off, FLOAT), keepdims=0)
        return [define.cast(largest, ir.DataType.BOOL), define("Where", is_off, p, before)]

    shape = define("Concat", define.dim(pairs, 0), define.ints(classes), axis=0)
    start = define("Expand", define.const(1.0 / classes, FLOAT), shape)
    always = define.const(True, ir.DataType.BOOL)  # noqa: FBT003 - a constant
    return define("Loop", define.const(_MOST_ITERATIONS), always, start, body=define.body_of(3, step))


def _quadratic_form(define: Definition, pairs: ir.Value, classes: int) -> ir.Value:
    """Return Q, [N, C, C]."""
    places = np.zeros((2, len(list(combinations(range(classes), 2))), classes * classes), np.float32)
    for number, (i, j) in enumerate(combinations(range(classes), 2)):
        places[0, number, i * classes + j] = places[1, number, j * classes + i] = 1
    rest = define("Sub", define.const(1.0, FLOAT), pairs)
    parts = [
        define("MatMul", part, define.const(place, FLOAT)) for part, place in zip((pairs, rest), places, strict=True)
    ]
    r = define.reshape(define("Add", *parts), 0, classes, classes)
    others = define("Mul", r, define("Transpose", r, perm=[0, 2, 1]))
    squares = define("ReduceSum", define("Mul", r, r), define.ints(1), keepdims=1)
    return define("Sub", define("Mul", squares, define.const(np.eye(classes), FLOAT)), others)
