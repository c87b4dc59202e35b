"""Linear models and what stands around models of ``ai.onnx.ml``: scaling, imputation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import ML, Family

family = Family(ML)

FLOAT = ir.DataType.FLOAT


@family.defines("LinearRegressor")
def linear_regressor(define: Definition) -> ir.Value:
    """``LinearRegressor(X; coefficients, intercepts, targets=1, post_transform) -> Y``: X * C^T + I."""
    scores = _linear(define, define.integer("targets", 1))
    return transformed(define, scores, define.text("post_transform", "NONE"))


@family.defines("LinearClassifier")
def linear_classifier(define: Definition) -> tuple[ir.Value, ir.Value]:
    """``LinearClassifier(X; coefficients, intercepts, classlabels_*, post_transform) -> Y, Z``: the best class."""
    labels = class_labels(define, "classlabels_ints", "classlabels_strings")
    if len(labels) < 2 or len(define.numbers("intercepts")) == 1:
        define.undefined()
    scores = _linear(define, len(labels))
    best = define("ArgMax", scores, axis=1, keepdims=0)
    return labelled(define, labels, best), transformed(define, scores, define.text("post_transform", "NONE"))


def _linear(define: Definition, rows: int) -> ir.Value:
    given, intercepts = define.numbers("coefficients"), define.numbers("intercepts")
    if rows < 1 or not given or len(given) % rows:
        define.refuse(f"attribute 'coefficients' must have as many elements for each of {rows} targets")
    if len(intercepts) not in (0, 1, rows):
        define.refuse(f"attribute 'intercepts' must have {rows} elements, not {len(intercepts)}")
    coefficients = np.array(given, np.float32).reshape(rows, -1)
    made = define("MatMul", rows_of(define), define.const(coefficients.T, FLOAT))
    return define("Add", made, define.const(intercepts, FLOAT)) if intercepts else made


def rows_of(define: Definition) -> ir.Value:
    """Return operand 0 as float [N, C]; a list is one row."""
    x = define.cast(define.input(0), FLOAT)
    return define.reshape(x, 1, -1) if define.rank(0) == 1 else x


def class_labels(define: Definition, integers: str, texts: str) -> Sequence[int | str]:
    """Return the labels of the classes."""
    return define.integers(integers) or define.texts(texts)


def labelled(define: Definition, labels: Sequence[int | str], index: ir.Value) -> ir.Value:
    """Return the labels at indices."""
    is_text = isinstance(labels[0], str)
    table = define.texts_of(labels) if is_text else define.const(labels)
    return define("Gather", table, index)


def transformed(define: Definition, scores: ir.Value, name: str) -> ir.Value:
    """Return scores [N, C] after a transformation by name."""
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return define("Sigmoid", scores)
        case "SOFTMAX":
            return define("Softmax", scores, axis=-1)
        case _:
            return define.undefined()


@family.defines("Scaler")
def scaler(define: Definition) -> ir.Value:
    """``Scaler(X; offset=0, scale=1) -> Y``: (X - offset) * scale."""
    offset, scale = define.numbers("offset") or [0.0], define.numbers("scale") or [1.0]
    shifted = define("Sub", define.cast(define.input(0), FLOAT), define.const(offset, FLOAT))
    return define("Mul", shifted, define.const(scale, FLOAT))


@family.defines("Normalizer")
def normalizer(define: Definition) -> ir.Value:
    """``Normalizer(X; norm="MAX") -> Y``: rows by their maximum, the sum of their absolute values, or their length.

    Rows of zeros stay.
    """
    x = define.cast(define.input(0), FLOAT)
    axes = define.ints(-1)
    match define.text("norm", "MAX"):
        case "MAX":
            size = define("ReduceMax", x, axes, keepdims=1)
        case "L1":
            size = define("ReduceSum", define("Abs", x), axes, keepdims=1)
        case "L2":
            size = define("Sqrt", define("ReduceSum", define("Mul", x, x), axes, keepdims=1))
        case _:
            define.undefined()
    is_zero = define.cast(define("Equal", size, define.const(0.0, FLOAT)), FLOAT)
    return define("Div", x, define("Add", size, is_zero))


@family.defines("Imputer")
def imputer(define: Definition) -> ir.Value:
    """``Imputer(X; imputed_value_floats, replaced_value_float=0) -> Y``: a column's value for a missing one."""
    values = define.numbers("imputed_value_floats")
    if not values or define.dtype(0) != FLOAT:
        define.undefined()
    x, missing = define.input(0), define.number("replaced_value_float", 0.0)
    is_missing = define("IsNaN", x) if np.isnan(missing) else define("Equal", x, define.const(missing, FLOAT))
    return define("Where", is_missing, define.const(values, FLOAT), x)


@family.defines("FeatureVectorizer")
def feature_vectorizer(define: Definition) -> ir.Value:
    """``FeatureVectorizer(*X; inputdimensions) -> Y``: the columns of all operands, as float."""
    parts = []
    for index in range(len(define.node.inputs)):
        part = define.cast(define.input(index), FLOAT)
        parts.append(define.reshape(part, -1, 1) if define.rank(index) == 1 else part)
    return define("Concat", *parts, axis=1)
