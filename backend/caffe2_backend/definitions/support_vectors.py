"""Support vector machines of ``ai.onnx.ml``, as onnxruntime computes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.class_probabilities import coupled
from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import ML, Family
from caffe2_backend.definitions.linear_models import class_labels, labelled, rows_of, transformed

family = Family(ML)

FLOAT = ir.DataType.FLOAT
_LEAST: Final = 1e-7  # of a probability


@family.defines("SVMRegressor")
def svm_regressor(define: Definition) -> ir.Value:
    """``SVMRegressor(X; support_vectors, n_supports=0, coefficients, rho, kernel_*, one_class=0) -> Y``.

    Without support vectors the coefficients are those of the columns.
    """
    coefficients, rho = define.numbers("coefficients"), define.numbers("rho")
    if not coefficients or not rho:
        define.refuse("attributes 'coefficients' and 'rho' must have elements")
    if define.text("post_transform", "NONE") != "NONE":
        define.undefined()
    count = define.integer("n_supports", 0)
    if count > 0:
        define.require_lengths(count, {"coefficients": coefficients})
    factors = np.reshape(coefficients, (-1, 1))
    y = _kernel_sums(define, factors) if count > 0 else define("MatMul", rows_of(define), define.const(factors, FLOAT))
    y = define("Add", y, define.const(rho[0], FLOAT))
    if not define.integer("one_class", 0):
        return y
    return define("Where", _is_positive(define, y), define.const(1.0, FLOAT), define.const(-1.0, FLOAT))


@family.defines("SVMClassifier")
def svm_classifier(define: Definition) -> tuple[ir.Value, ir.Value]:
    """``SVMClassifier(X; support_vectors, vectors_per_class, coefficients, rho, prob_a, prob_b, ...) -> Y, Z``.

    Each two classes have a score, which votes for one of them. Z are the scores, or, with ``prob_a`` and ``prob_b``,
    probabilities of the classes. Without support vectors the coefficients are those of the columns, for each class.
    """
    labels = class_labels(define, "classlabels_ints", "classlabels_strings")
    counts, transform = define.integers("vectors_per_class"), define.text("post_transform", "NONE")
    if not sum(counts) and labels:
        return _linear(define, labels, transform)
    if len(labels) < 2 or (len(labels) == 2 and transform != "NONE"):
        define.undefined()
    define.require_lengths(len(labels), {"vectors_per_class": counts})
    scores = _scores_of_pairs(define, counts)
    is_first = define.cast(_is_positive(define, scores), FLOAT)
    wins, base = _votes(len(labels))
    votes = define("Add", define("MatMul", is_first, define.const(wins, FLOAT)), define.const(base, FLOAT))
    best = define("ArgMax", votes, axis=1, keepdims=0)
    if define.numbers("prob_a"):
        scores = coupled(define, _probabilities(define, scores), len(labels))
    elif len(labels) == 2:
        scores = define("Concat", define("Neg", scores), scores, axis=1)
    return labelled(define, labels, best), transformed(define, scores, transform)


def _linear(define: Definition, labels: Sequence[int | str], transform: str) -> tuple[ir.Value, ir.Value]:
    """Return the labels and the scores of a model without support vectors, which has one score for each class.

    Of two classes with one ``rho`` the second one is chosen where the largest score is above a bound.
    """
    coefficients, rho = define.numbers("coefficients"), define.numbers("rho")
    if not coefficients or len(coefficients) % len(labels) or not rho:
        define.refuse(f"attribute 'coefficients' must have as many elements for each of {len(labels)} classes")
    table = np.reshape(coefficients, (len(labels), -1)).T
    scores = define("Add", define("MatMul", rows_of(define), define.const(table, FLOAT)), define.const(rho[0], FLOAT))
    chosen: ir.Value = define("ArgMax", scores, axis=1, keepdims=0)
    if len(labels) == 2 and len(rho) == 1:
        largest = define("ReduceMax", scores, define.ints(1), keepdims=0)
        compare, bound = ("GreaterOrEqual", 0.5) if min(coefficients) >= 0 else ("Greater", 0.0)
        chosen = define("Where", define(compare, largest, define.const(bound, FLOAT)), define.const(1), chosen)
    if len(labels) > 1 or transform == "PROBIT":
        scores = transformed(define, scores, transform)
    return labelled(define, labels, chosen), scores


def _scores_of_pairs(define: Definition, counts: Sequence[int]) -> ir.Value:
    """Return a score for each two classes, [N, pairs].

    The coefficients have a row for each class but one, [classes - 1, vectors]: those of the vectors of one class in its
    pairs with the others.
    """
    total, pairs = sum(counts), list(combinations(range(len(counts)), 2))
    coefficients, rho = define.numbers("coefficients"), define.numbers("rho")
    define.require_lengths((len(counts) - 1) * total, {"coefficients": coefficients})
    define.require_lengths(len(pairs), {"rho": rho})
    table = np.reshape(coefficients, (-1, total))
    ends = np.cumsum([0, *counts])
    factors = np.zeros((total, len(pairs)))
    for number, (i, j) in enumerate(pairs):
        own, other = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        factors[own, number], factors[other, number] = table[j - 1, own], table[i, other]
    return define("Add", _kernel_sums(define, factors), define.const(rho, FLOAT))


def _votes(classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how the votes change where the first class of a pair wins, [pairs, classes], and the votes otherwise."""
    pairs = list(combinations(range(classes), 2))
    first, second = (np.eye(classes)[[pair[side] for pair in pairs]] for side in (0, 1))
    return first - second, second.sum(0)


def _probabilities(define: Definition, scores: ir.Value) -> ir.Value:
    """Return the probability of the first class of each pair, [N, pairs]."""
    a, b = define.numbers("prob_a"), define.numbers("prob_b")
    define.require_lengths(len(define.numbers("rho")), {"prob_a": a, "prob_b": b})
    scaled = define("Add", define("Mul", scores, define.const(a, FLOAT)), define.const(b, FLOAT))
    bounds = (define.const(np.float32(bound), FLOAT) for bound in (_LEAST, 1 - _LEAST))
    return define("Clip", define("Sigmoid", define("Neg", scaled)), *bounds)


def _is_positive(define: Definition, x: ir.Value) -> ir.Value:
    return define("Greater", x, define.const(0.0, FLOAT))


def _kernel_sums(define: Definition, factors: np.ndarray) -> ir.Value:
    """Return the kernels of each row and each support vector, summed with factors [vectors, P], [N, P]."""
    count, given = len(factors), define.numbers("support_vectors")
    if not given or len(given) % count:
        define.refuse(f"attribute 'support_vectors' must have as many elements for each of {count} vectors")
    vectors = np.reshape(given, (count, -1))
    parameters = define.numbers("kernel_params") or [0.0] * 3
    define.require_lengths(3, {"kernel_params": parameters})
    if define.text("kernel_type", "LINEAR") == "LINEAR":  # one product, whose sums cancel less
        return define("MatMul", rows_of(define), define.const(vectors.T @ factors, FLOAT))
    return define("MatMul", _kernels(define, vectors, parameters), define.const(factors, FLOAT))


def _kernels(define: Definition, vectors: np.ndarray, parameters: Sequence[float]) -> ir.Value:
    """Return the kernel of each row and each support vector, [N, vectors]."""
    gamma, offset, degree = parameters
    x, kind = rows_of(define), define.text("kernel_type", "LINEAR")
    if kind == "RBF":
        apart = define("Sub", define("Unsqueeze", x, define.ints(1)), define.const(vectors, FLOAT))
        distance = define("ReduceSum", define("Mul", apart, apart), define.ints(2), keepdims=0)
        return define("Exp", define("Mul", distance, define.const(-gamma, FLOAT)))
    product = define("MatMul", x, define.const(vectors.T, FLOAT))
    shifted = define("Add", define("Mul", product, define.const(gamma, FLOAT)), define.const(offset, FLOAT))
    match kind:
        case "POLY":
            return define("Pow", shifted, define.const(degree, FLOAT))
        case "SIGMOID":
            return define("Tanh", shifted)
        case _:
            return define.undefined()
