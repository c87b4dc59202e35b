"""Random numbers: Caffe2 draws others than onnxruntime, whatever the seed."""

from __future__ import annotations

from typing import Any, Final

from caffe2_backend.emit.conversion import as_float, from_float
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT, FLOAT16

family = Family("random")

_LEAST: Final = 2.0**-24  # the distance of uniform numbers from 0 and 1, whose logarithms are infinite

# By distribution Caffe2's operator, and its numbers: the names of ONNX, those of Caffe2, and the defaults.
_FILLS: Final = {
    "Uniform": ("UniformFill", (("low", "min", 0.0), ("high", "max", 1.0))),
    "Normal": ("GaussianFill", (("mean", "mean", 0.0), ("scale", "std", 1.0))),
}


@family.converts("RandomUniform", "RandomNormal")
def random(op: Op) -> Value:
    """``RandomUniform(shape, low=0, high=1) -> output``: UniformFill; for RandomNormal(mean=0, scale=1) GaussianFill.

    The seed is not kept: Caffe2's generator is seeded by the net that it runs in.
    """
    return _filled(op, shape=list(op.args.integers("shape")))


@family.converts("RandomUniformLike", "RandomNormalLike")
def random_like(op: Op) -> Value:
    """``RandomUniformLike(input; low=0, high=1) -> output``: the same in the shape of an operand."""
    return _filled(op, op.input(0))


@family.converts("Bernoulli")
def bernoulli(op: Op) -> Value:
    """``Bernoulli(input) -> output``: whether numbers of UniformFill are below the probabilities.

    ONNX's function compares the other way round; its text, its reference and onnxruntime draw 1 with the probability.
    """
    op.args.ignore("dtype", "seed")
    x, dtype = as_float(op, op.input(0)), op.output_dtype(0)
    drawn = op.emit("UniformFill", x, min=0.0, max=1.0) < x
    return from_float(op, drawn.cast(FLOAT), dtype) if dtype == FLOAT16 else drawn.cast(dtype)


@family.converts("Multinomial")
def multinomial(op: Op) -> Value:
    """``Multinomial(input; dtype=int32, sample_size=1) -> output``: ArgMax of logits with noise, [N, sample_size].

    With -log(-log(u)) of uniform numbers added, each class is the largest as often as its logit says (Gumbel).
    """
    op.args.ignore("dtype", "seed")
    logits, count = as_float(op, op.input(0)), op.args.integer("sample_size", default=1)
    if count < 1:
        op.unsupported(f"sample_size must be positive, not {count}", code="invalid-argument")
    each = op.emit("Tile", op.emit("ExpandDims", logits, dims=[1]), tiles=count, axis=1)
    noise = -op.emit("Log", -op.emit("Log", op.emit("UniformFill", each, min=_LEAST, max=1.0 - _LEAST)))
    return op.emit("ArgMax", each + noise, axis=2, keepdims=0).cast(op.output_dtype(0))


def _filled(op: Op, *like: Value, **args: Any) -> Value:
    op.args.ignore("dtype", "seed")
    fill, names = _FILLS[op.type.removeprefix("Random").removesuffix("Like")]
    numbers = {name: op.args.number(given, default=default) for given, name, default in names}
    if fill == "UniformFill" and numbers["min"] == numbers["max"]:  # crossed bounds are no model
        op.unsupported(f"low and high must differ, not both be {numbers['min']:g}", code="invalid-argument")
    drawn = op.emit(fill, *like, outputs=1, **args, **numbers)
    return from_float(op, drawn, op.output_dtype(0))
