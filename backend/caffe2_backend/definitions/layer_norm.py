"""Normalization over the last axes, with what onnxruntime fused it with."""

from __future__ import annotations

import onnx_ir as ir

from caffe2_backend.definitions.definition import Definition
from caffe2_backend.definitions.family import MICROSOFT, Family

family = Family(MICROSOFT)


@family.defines("SkipLayerNormalization")
def skip_layer_normalization(define: Definition) -> tuple[ir.Value, ...]:
    """``SkipLayerNormalization(input, skip, gamma, beta, bias; epsilon) -> output, mean, inv_std, sum``."""
    total = define.add(define("Add", define.input(0), define.input(1)), define.optional(4))
    scale = [total, define.input(2), define.optional(3)]
    normal = define.several(3, "LayerNormalization", *scale, axis=-1, epsilon=define.number("epsilon", 1e-5))
    return (*normal, total)


@family.defines("LayerNormalization")
def layer_normalization(define: Definition) -> tuple[ir.Value, ...]:
    """``LayerNormalization(X, Scale, B=None; axis=-1, epsilon=1e-5) -> Y, Mean, InvStdDev``: ONNX's of opset 17."""
    operands = [define.input(0), define.input(1), define.optional(2)]
    axis, epsilon = define.integer("axis", -1), define.number("epsilon", 1e-5)
    return tuple(define.several(3, "LayerNormalization", *operands, axis=axis, epsilon=epsilon))


@family.defines("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(define: Definition) -> tuple[ir.Value, ...]:
    """``SkipSimplifiedLayerNormalization(input, skip, gamma, bias; epsilon) -> output, mean, inv_std, sum``.

    The mean that is subtracted is 0.
    """
    total = define.add(define("Add", define.input(0), define.input(1)), define.optional(3))
    y, inverse = root_mean_square(define, total, define.input(2), define.number("epsilon", 1e-5), [-1])
    mean = define("Expand", define.const(0.0, ir.DataType.FLOAT), define("Shape", inverse))
    return y, mean, inverse, total


def root_mean_square(
    define: Definition, x: ir.Value, scale: ir.Value, epsilon: float, axes: list[int]
) -> tuple[ir.Value, ir.Value]:
    """Return X / sqrt(mean(x * x) + epsilon) * scale over axes, and the reciprocal of the root."""
    wide = define.cast(x, ir.DataType.FLOAT)
    mean = define("ReduceMean", define("Mul", wide, wide), define.ints(*axes), keepdims=1)
    inverse = define("Reciprocal", define("Sqrt", define("Add", mean, define.const(epsilon, ir.DataType.FLOAT))))
    return define("Mul", define("CastLike", define("Mul", wide, inverse), x), scale), inverse


@family.defines("SimplifiedLayerNormalization")
def simplified_layer_normalization(define: Definition) -> tuple[ir.Value, ir.Value]:
    """``SimplifiedLayerNormalization(X, scale; axis=-1, epsilon=1e-5) -> Y, inv_std``: RMSNormalization."""
    rank = define.rank(0)
    axis = define.integer("axis", -1) % rank
    x, epsilon = define.input(0), define.number("epsilon", 1e-5)
    return root_mean_square(define, x, define.input(1), epsilon, list(range(axis, rank)))


@family.defines("EmbedLayerNormalization")
def embed_layer_normalization(define: Definition) -> tuple[ir.Value, ...]:
    """``EmbedLayerNormalization(input_ids, segment_ids, words, positions, segments, gamma, beta, mask, position_ids)``.

    -> output, mask_index (the number of ones of each row of the mask), sum of the embeddings.
    """
    ids = define.input(0)
    rows = define("Gather", define.input(2), ids)
    if define.has_input(8):
        positions = define("Gather", define.input(3), define.input(8))
    else:
        length = define.reshape(define.dim(ids, 1), 1)
        positions = define("Slice", define.input(3), define.ints(0), length, define.ints(0))
    total = define("Add", rows, positions)
    if define.has_input(4):
        total = define("Add", total, define("Gather", define.input(4), define.input(1)))
    scale = [total, define.input(5), define.input(6)]
    y = define("LayerNormalization", *scale, axis=-1, epsilon=define.number("epsilon", 1e-12))
    if define.integer("mask_index_type", 1) != 1 and define.wants(1):
        define.undefined()
    if define.has_input(7):
        lengths = define("ReduceSum", define.input(7), define.ints(1), keepdims=0)
    else:
        zeros = define("Sub", ids, ids)
        lengths = define("ReduceSum", define.cast(zeros, ir.DataType.INT32), define.ints(1), keepdims=0)
    return y, lengths, total
