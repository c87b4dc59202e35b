"""How far results move if inputs are a rounding apart, or a model rounds otherwise: it tells how exact they can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import onnx
import onnx_ir as ir
from conformance.corpus import Array, Quantization
from conformance.executors import OnnxRuntime

# Of a run on onnxruntime: a loop may have no end.
RUN_SECONDS: Final = 30.0
# Bytes of a float that an operator stores change with half of all nudges.
NUDGES: Final = 12
_NUDGE: Final = 3e-7
_NUDGE_OF_HALF: Final = 1e-3
# How much more than roundings change a result the conversion may change it.
_LEEWAY: Final = 50.0
# Functions that are exact to a part of one, and those that are to a part of their result.
_FUNCTIONS: Final = frozenset({"Sigmoid", "Softmax", "Tanh"})
_POWERS: Final = frozenset({"Exp", "Log", "Pow"})
# The terms of a product may cancel: the errors are those of its operand.
_PRODUCTS: Final = frozenset({"Gemm", "MatMul"})


class Spread:
    """How far each element of the results of a case moves with roundings."""

    def __init__(self, expected: Mapping[str, Array]) -> None:
        self._expected = expected
        self._known = {name: np.zeros(array.shape) for name, array in expected.items() if array.dtype.kind in "fiu"}

    def add(self, before: Mapping[str, Array], moved: Mapping[str, Array]) -> None:
        """Take what other roundings compute of the same case, or of a part of its results."""
        for name, array in moved.items():
            known = self._known.get(name)
            if known is not None and before[name].shape == array.shape == known.shape:
                self._known[name] = np.maximum(known, _distance(array, before[name]))

    def settled(self, actual: Mapping[str, Array]) -> Mapping[str, Array]:
        """``actual`` with the elements expected where it differs no further than the tolerance and the roundings."""
        return {name: self._settle(name, array) for name, array in actual.items()}

    def _settle(self, name: str, actual: Array) -> Array:
        expected, spread = self._expected[name], self._known.get(name)
        if expected.shape != actual.shape or expected.dtype != actual.dtype or spread is None:
            return actual
        with np.errstate(all="ignore"):
            allowed = _LEEWAY * spread
            if expected.dtype.kind == "f":
                finite = np.where(np.isfinite(expected), np.abs(expected.astype(np.float64)), 0)
                allowed = allowed + 1e-4 + 1e-3 * finite
            return np.where(_distance(actual, expected) <= allowed, expected, actual)


def _distance(one: Array, other: Array) -> Array:
    """How far elements are apart: infinitely where one alone is a NaN or an infinity."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0.0, np.abs(one - other))
    return np.where(np.isnan(apart), np.inf, apart)


def nudged(array: Array, random: np.random.Generator, maker: str = "") -> Array:
    """An operand whose elements, if they are floats, are about a rounding apart from those given.

    What a function that saturates has made, as the operator ``maker``, is rounded to a part of one.
    """
    if array.dtype.kind != "f":
        return array
    with np.errstate(all="ignore"):
        size = _NUDGE_OF_HALF if array.dtype == np.float16 else _NUDGE
        error = random.uniform(-size, size, array.shape)
        return (array + (error if maker in _FUNCTIONS else array * error)).astype(array.dtype)


def nudged_scales(quantized: Mapping[str, Quantization], random: np.random.Generator) -> dict[str, Quantization]:
    """The scales and zero points of Int8 tensors, with scales about a rounding apart from those given."""
    return {name: (scale * (1 + random.uniform(-_NUDGE, _NUDGE)), zero) for name, (scale, zero) in quantized.items()}


def rounded_runs(
    model: onnx.ModelProto, outputs: Sequence[str], feed: Mapping[str, Array]
) -> Iterator[dict[str, Array]]:
    """What a model, which runs, computes with other roundings."""
    for seed in range(NUDGES):
        runnable = OnnxRuntime(rounded_otherwise(model, _NUDGE, seed), RUN_SECONDS)
        yield dict(zip(outputs, runnable.run(dict(feed)), strict=True))


def rounded_otherwise(model: onnx.ModelProto, size: float, seed: int) -> onnx.ModelProto:
    """A copy with random errors up to ``size`` in what functions compute, and in each element that products multiply.

    Errors of functions that saturate are absolute, those of powers and of elements are relative.
    """
    copy = ir.serde.deserialize_model(model)
    for node in list(copy.graph.all_nodes()):
        if node.op_type in _FUNCTIONS:
            _move_result(node, "Add", size, seed)
        elif node.op_type in _POWERS:
            _move_result(node, "Mul", size, seed)
        elif node.op_type in _PRODUCTS:
            _move_operand(node, size, seed)
    return ir.serde.serialize_model(copy)


def _move_result(node: ir.Node, by: Literal["Add", "Mul"], size: float, seed: int) -> None:
    (exact,) = node.outputs
    error = _random(exact, f"{exact.name}/error", 0 if by == "Add" else 1, size, seed)
    total = ir.node(by, [exact, error.outputs[0]])
    (moved,) = total.outputs
    moved.type, moved.shape, moved.name, exact.name = exact.type, exact.shape, exact.name, f"{exact.name}/exact"
    ir.convenience.replace_all_uses_with(exact, moved, replace_graph_outputs=True)
    total.replace_input_with(0, exact)
    error.replace_input_with(0, exact)
    assert node.graph is not None
    node.graph.insert_after(node, [error, total])


def _move_operand(node: ir.Node, size: float, seed: int) -> None:
    exact = node.inputs[0]
    assert exact is not None
    assert node.graph is not None
    product = node.outputs[0].name
    error = _random(exact, f"{product}/error", 1, size, seed)
    moved = ir.node("Mul", [exact, error.outputs[0]])
    moved.outputs[0].name = f"{product}/operand"
    node.replace_input_with(0, moved.outputs[0])
    node.graph.insert_before(node, [error, moved])


def _random(like: ir.Value, name: str, around: float, size: float, seed: int) -> ir.Node:
    bounds = {"low": around - size, "high": around + size}
    node = ir.node("RandomUniformLike", [like], {**bounds, "seed": float(seed)})
    node.outputs[0].name = name
    return node
