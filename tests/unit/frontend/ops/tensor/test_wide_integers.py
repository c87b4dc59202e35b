"""Integers of more than 32 bits, which Max, Min, ReduceMax, ReduceMin and Sign of onnxruntime compare wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Array, export, run

from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

BITS = (31, 32, 33, 35, 40, 53, 62)


def values(seed: int, *shape: int) -> dict[int, Array]:
    draw = np.random.default_rng(seed)
    return {bits: draw.integers(-(2**bits), 2**bits, shape) for bits in BITS}


def results(op: OperatorDef, x: Array, **others: Array) -> Array:
    feed = {"X": x, **others}
    return run(export(op, {name: ("int64", [None] * value.ndim) for name, value in feed.items()}), feed)[0]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_reductions(kind: str, axes: tuple[int, ...], keepdims: int) -> None:
    op = operator(f"Reduce{kind}", ["X"], ["Y"], axes=list(axes), keepdims=keepdims)
    for bits, x in values(1, 9, 37).items():
        expected = getattr(x, kind.lower())(axis=axes or None, keepdims=bool(keepdims))
        np.testing.assert_array_equal(results(op, x), expected, err_msg=f"{bits} bits")
    ends = np.array([[-(2**63), 2**63 - 1, -1, 0]])
    found = results(operator(f"Reduce{kind}", ["X"], ["Y"], axes=[1], keepdims=0), ends)
    assert found.tolist() == [2**63 - 1 if kind == "Max" else -(2**63)]


def test_signs() -> None:
    for bits, x in values(2, 50).items():
        np.testing.assert_array_equal(results(operator("Sign", ["X"], ["Y"]), x), np.sign(x), err_msg=f"{bits}")
    assert results(operator("Sign", ["X"], ["Y"]), np.array([0, -1, 1])).tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("maximum", np.maximum), ("minimum", np.minimum), ("max", np.maximum), ("min", np.minimum)],
)
def test_extrema_of_two_tensors(name: str, expected: np.ufunc) -> None:
    op = operator("ATen", ["X", "Z"], ["Y"], operator=name)
    for bits, x in values(3, 2, 41).items():
        np.testing.assert_array_equal(results(op, x[0], Z=x[1]), expected(x[0], x[1]), err_msg=f"{bits} bits")


def test_clamps_and_relu() -> None:
    for bits, x in values(4, 43).items():
        low, high = sorted(map(int, x[:2]))
        clamp = operator("ATen", ["X", "L", "H"], ["Y"], operator="clamp")
        found = results(clamp, x, L=np.array(low), H=np.array(high))
        np.testing.assert_array_equal(found, np.clip(x, low, high), err_msg=f"{bits} bits")
        found = results(operator("ATen", ["X"], ["Y"], operator="relu"), x)
        np.testing.assert_array_equal(found, np.maximum(x, 0), err_msg=f"{bits} bits")
        found = results(operator("ATen", ["X"], ["Y"], operator="sign"), x)
        np.testing.assert_array_equal(found, np.sign(x), err_msg=f"{bits} bits")
