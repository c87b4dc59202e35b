"""Operators between DequantizeLinear and QuantizeLinear as Caffe2's Int8 operators.

Each pattern is a function from a :class:`Candidate` to the operator; None where Caffe2 has none of the same results,
give or take a step of the scale: the limits are those of QNNPACK, which Caffe2 runs on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.int8.quantized_values import Array, Int8Tensor, known, known_bytes, known_reals
from caffe2_frontend.interop.types import Quantization

_WITH_RELU: Final = ("Int8Add", "Int8Conv")
_NHWC: Final = {"order": "NHWC"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of an Int8 operator: uint8 weights, or int32 biases, and their quantization."""

    name: str
    array: Array
    how: Quantization


@dataclass(frozen=True)
class Int8Operator:
    """An Int8 operator that is to replace nodes: its operands are tensors of the net, then parameters.

    ``needs_relu``: whether an Int8Relu must follow.
    """

    type: str
    tensors: Sequence[Int8Tensor]
    args: Mapping[str, Any]
    parameters: Sequence[Parameter] = ()
    needs_relu: bool = False


@dataclass(frozen=True)
class Candidate:
    """A node between DequantizeLinear and QuantizeLinear.

    Attributes:
        node: the node.
        how: the quantization of the result.
        relu: whether a Relu follows.
        tensors: the Int8 tensors by the floats that stand for them in the model.
    """

    node: ir.Node
    how: Quantization
    relu: bool
    tensors: Mapping[ir.Value, Int8Tensor]

    @property
    def operands(self) -> list[Int8Tensor]:
        """The operands that are Int8 tensors."""
        return [self.tensors[value] for value in self.node.inputs if value is not None and value in self.tensors]

    @property
    def output(self) -> dict[str, Any]:
        """The arguments for the quantization of the result."""
        return output_arguments(self.how)

    def integers(self, name: str, default: Sequence[int]) -> list[int]:
        """Return an attribute that is a list of integers."""
        return list(self.node.attributes.get_ints(name, ()) or default)

    def input(self, index: int) -> ir.Value | None:
        """Return an operand, None where it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def rank(self) -> int | None:
        """Return the rank of operand 0."""
        first = self.node.inputs[0]
        return None if first is None or first.shape is None else len(first.shape)

    def keeps(self) -> bool:
        """Whether the result has the quantization of all operands."""
        return bool(self.operands) and all(_same(tensor.how, self.how) for tensor in self.operands)


def output_arguments(how: Quantization) -> dict[str, Any]:
    """Return the arguments of an Int8 operator for the quantization of its result."""
    return {"Y_scale": float(np.float32(how.scale)), "Y_zero_point": how.zero_point}


def _same(a: Quantization, b: Quantization) -> bool:
    return a.zero_point == b.zero_point and math.isclose(a.scale, b.scale, rel_tol=1e-6)


def find_operator(candidate: Candidate) -> Int8Operator | None:
    """Return the Int8 operator of a node, None where Caffe2 has none of it."""
    pattern = _PATTERNS.get(candidate.node.op_type)
    found = None if pattern is None or candidate.node.domain else pattern(candidate)
    if found is None or not candidate.relu:
        return found
    if found.type in _WITH_RELU:
        return replace(found, type=found.type + "Relu")
    return replace(found, needs_relu=True)


def _convolution(c: Candidate) -> Int8Operator | None:
    weights = known_bytes(c.input(1))
    if len(c.operands) != 1 or weights is None or weights[0].ndim != 4 or not _has_plain_pads(c):
        return None
    array, how = weights
    args = {
        "kernels": list(array.shape[2:]), "strides": c.integers("strides", (1, 1)), "pads": c.integers("pads", [0] * 4),
        "dilations": c.integers("dilations", (1, 1)), "group": c.node.attributes.get_int("group", 1), **_NHWC,
    }  # fmt: skip
    return _product(c, "Int8Conv", array.transpose(0, 2, 3, 1), how, args)


def _layer(c: Candidate) -> Int8Operator | None:
    """Return the Int8 operator of a Gemm without factors, or MatMul, of rows and known weights."""
    weights, attributes = known_bytes(c.input(1)), c.node.attributes
    if len(c.operands) != 1 or weights is None or weights[0].ndim != 2 or c.rank() != 2:
        return None
    if attributes.get_float("alpha", 1.0) != 1 or attributes.get_float("beta", 1.0) != 1:
        return None
    if attributes.get_int("transA", 0):
        return None
    array, how = weights
    return _product(c, "Int8FC", array if attributes.get_int("transB", 0) else array.T, how, {})


def _product(c: Candidate, kind: str, weights: Array, how: Quantization, args: dict[str, Any]) -> Int8Operator | None:
    """Return a product with weights [M, ...], and biases in units of the product of both scales."""
    unit = float(np.float32(c.operands[0].how.scale) * np.float32(how.scale))
    if not 0 < np.float32(unit) / np.float32(c.how.scale) < 1:
        return None
    bias = c.input(2)
    reals = np.zeros(len(weights)) if bias is None else known_reals(bias)
    if reals is None or reals.size not in (1, len(weights)):
        return None
    steps = np.rint(np.broadcast_to(reals.astype(np.float64).reshape(-1), len(weights)) / unit)
    if np.abs(steps).max(initial=0) > np.iinfo(np.int32).max:
        return None
    name = str(c.node.inputs[1].name if c.node.inputs[1] is not None else "")
    parameters = (
        Parameter(f"{name}/int8", np.ascontiguousarray(weights), how),
        Parameter(f"{name}/bias", steps.astype(np.int32), Quantization(unit, 0)),
    )
    return Int8Operator(kind, c.operands, {**args, **c.output}, parameters)


def _sum(c: Candidate) -> Int8Operator | None:
    shapes = [None if value is None else value.shape for value in c.node.inputs]
    if len(c.operands) != 2 or shapes[0] is None or shapes[0] != shapes[1]:
        return None
    scales = [tensor.how.scale / c.how.scale for tensor in c.operands]
    if min(scales) < 2**-14 or not 2**-10 <= max(scales) < 2**8:
        return None
    return Int8Operator("Int8Add", c.operands, c.output)


def _window(c: Candidate) -> dict[str, Any] | None:
    """Return the arguments of a pool, None where QNNPACK has no such pool."""
    kernel, strides = c.integers("kernel_shape", ()), c.integers("strides", (1, 1))
    pads = c.integers("pads", [0] * 4)
    if len(kernel) != 2 or set(kernel) == {1} or not _has_plain_pads(c):
        return None
    if c.node.attributes.get_int("ceil_mode", 0):
        return None
    if set(c.integers("dilations", (1, 1))) != {1} or any(p >= k for p, k in zip(pads, kernel * 2, strict=True)):
        return None
    return {"kernels": kernel, "strides": strides, "pads": pads, **_NHWC}


def _has_plain_pads(c: Candidate) -> bool:
    """Whether pads are given as numbers, none of them negative."""
    plain = c.node.attributes.get_string("auto_pad", "NOTSET") == "NOTSET"
    return plain and min(c.integers("pads", [0])) >= 0


def _max_pool(c: Candidate) -> Int8Operator | None:
    args = _window(c)
    if args is None or not c.keeps() or len(c.node.outputs) > 1:
        return None
    return Int8Operator("Int8MaxPool", c.operands, {**args, **c.output})


def _average_pool(c: Candidate) -> Int8Operator | None:
    args = _window(c)
    if args is None or (any(args["pads"]) and not c.node.attributes.get_int("count_include_pad", 0)):
        return None
    return _mean(c, args)


def _global_average_pool(c: Candidate) -> Int8Operator | None:
    return _mean(c, {"global_pooling": 1, **_NHWC}) if c.rank() == 4 else None


def _mean(c: Candidate, args: dict[str, Any]) -> Int8Operator | None:
    if len(c.operands) != 1 or not 2**-8 <= c.operands[0].how.scale / c.how.scale < 2**8:
        return None
    return Int8Operator("Int8AveragePool", c.operands, {**args, **c.output})


def _relu(c: Candidate) -> Int8Operator | None:
    return Int8Operator("Int8Relu", c.operands, c.output) if c.keeps() else None


def _leaky_relu(c: Candidate) -> Int8Operator | None:
    alpha = c.node.attributes.get_float("alpha", 0.01)
    if len(c.operands) != 1 or not 0 < alpha < 1:
        return None
    return Int8Operator("Int8LeakyRelu", c.operands, {"alpha": alpha, **c.output})


def _concat(c: Candidate) -> Int8Operator | None:
    """Return the parts of an image along its channels, which are last."""
    rank = c.rank()
    if len(c.operands) != len(c.node.inputs) or not c.keeps() or rank is None:
        return None
    axis = c.node.attributes.get_int("axis", 0) % rank
    if rank == 4:
        axis = (0, 3, 1, 2)[axis]
    return Int8Operator("Int8Concat", c.operands, {"axis": axis, **c.output})


def _flatten(c: Candidate) -> Int8Operator | None:
    """Return the Int8 operator of rows of all elements of an image of one pixel, or of a matrix."""
    shape = None if c.node.inputs[0] is None else c.node.inputs[0].shape
    if not c.keeps() or shape is None or not _makes_rows(c, shape):
        return None
    if len(shape) == 4 and (shape[2], shape[3]) != (1, 1):
        return None
    return Int8Operator("Int8Flatten", c.operands, {"axis": 1, **c.output})


def _makes_rows(c: Candidate, shape: ir.Shape) -> bool:
    if c.node.op_type == "Flatten":
        return c.node.attributes.get_int("axis", 1) in (1, 1 - len(shape))
    target = known(c.input(1))
    sizes = [] if target is None else target.tolist()
    inner = list(shape)[1:]
    if len(sizes) != 2 or not all(isinstance(dim, int) for dim in inner):
        return False
    is_rest = sizes[1] in (-1, math.prod(int(str(dim)) for dim in inner))
    return is_rest and (sizes[0] in (0, shape[0]) or (sizes[0] == -1 and sizes[1] != -1))


_PATTERNS: Final[dict[str, Callable[[Candidate], Int8Operator | None]]] = {
    "Add": _sum,
    "AveragePool": _average_pool,
    "Concat": _concat,
    "Conv": _convolution,
    "Flatten": _flatten,
    "Gemm": _layer,
    "GlobalAveragePool": _global_average_pool,
    "LeakyRelu": _leaky_relu,
    "MatMul": _layer,
    "MaxPool": _max_pool,
    "Relu": _relu,
    "Reshape": _flatten,
}
