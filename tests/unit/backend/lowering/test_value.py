"""Values that are known at the import, and values that are computed at run time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from caffe2_backend.lowering.emitter import Emitter
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operator_base import UnsupportedError
from caffe2_frontend.interop.types import BOOL, FLOAT, FLOAT16, INT64


def emitter() -> Emitter:
    return Emitter(Names(), "y", stores_bits=True)


def emitted(builder: Emitter) -> list[str]:
    return [op.type for op in builder.emitted.ops]


@pytest.mark.parametrize(
    ("compute", "expected"),
    [
        (lambda x: x // 2, [-2, -1, 0, 1]),
        (lambda x: x.quotient(2), [-1, 0, 0, 1]),
        (lambda x: x % 2, [1, 1, 1, 1]),
        (lambda x: 1 - x, [4, 2, 0, -2]),
        (lambda x: x.maximum(0).minimum(2), [0, 0, 1, 2]),
        (lambda x: x.select(7, x > 0), [7, 7, 1, 3]),
    ],
)
def test_known_arrays_are_computed_without_operators(compute: Callable[[Value], Value], expected: list[int]) -> None:
    builder = emitter()
    value = compute(builder.const([-3, -1, 1, 3], INT64))
    assert value.array is not None
    assert value.array.tolist() == expected
    assert value.array.dtype == np.int64
    assert not emitted(builder)
    assert not builder.emitted.constants


def test_comparisons_of_known_arrays_are_bools() -> None:
    value = emitter().const([1.0, np.nan], FLOAT).equals(1.0)
    assert value.dtype == BOOL
    assert value.array is not None
    assert value.array.tolist() == [True, False]


def test_floats_round_half_to_even() -> None:
    value = emitter().const([0.5, 1.5, 2.5, -0.5], FLOAT).round()
    assert value.array is not None
    assert value.array.tolist() == [0, 2, 2, 0]


def test_blobs_emit_operators_and_keep_their_types() -> None:
    builder = emitter()
    x = builder.blob("x", INT64)
    total = x * 2 + 1
    assert (total.dtype, (x > 0).dtype, (x > 0).cast(FLOAT).dtype) == (INT64, BOOL, FLOAT)
    assert total.array is None
    assert emitted(builder)[:2] == ["Mul", "Add"]
    assert builder.emitted.ops[0].input[0] == "x"


def test_a_constant_becomes_one_blob_when_an_operator_reads_it() -> None:
    builder = emitter()
    two = builder.const(2, INT64)
    x = builder.blob("x", INT64)
    assert (x + two).name != (x * two).name
    assert list(builder.emitted.constants) == [two.name]


def test_operators_inside_of_a_body_stay_in_it_and_constants_do_not() -> None:
    builder = emitter()
    x = builder.blob("x", FLOAT)
    with builder.inside() as ops:
        inner = x + 1.0
    outer = x - inner
    assert [op.type for op in ops] == ["Add"]
    assert emitted(builder) == ["Sub"]
    assert outer.name
    assert len(builder.emitted.constants) == 1


def test_types_of_further_outputs() -> None:
    builder = emitter()
    values, indices = builder.emit("TopK", builder.blob("x", FLOAT), outputs=2, k=1)
    assert (values.dtype, indices.dtype) == (FLOAT, INT64)
    assert builder.emit("Where", builder.blob("c", BOOL), values, values).dtype == FLOAT


def test_shapes_follow_through_casts() -> None:
    builder = emitter()
    x = builder.blob("x", FLOAT16, ir.Shape([2, "N"]))
    wide = builder.widen(x)
    assert (wide.dtype, wide.shape) == (FLOAT, x.shape)
    assert builder.narrow(wide, FLOAT16).dtype == FLOAT16
    assert emitted(builder) == ["HalfToFloat", "FloatToHalf"]


def test_arrays_whose_shapes_do_not_go_together() -> None:
    value = emitter().const([1, 2, 3], INT64)
    for compute in (lambda: value + emitter().const([1, 2], INT64), lambda: value.reshape([2, -1])):
        with pytest.raises(UnsupportedError, match="shapes do not go together") as raised:
            compute()
        assert raised.value.code == "invalid-operands"
