"""Converters of arithmetic: named dims, element types that are refused, constants that are not stored."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

X: Specs = {"X": ("float32", ("N", "C", "H"))}


XS: Specs = {**X, "Z": ("float32", ("N", "C", "H"))}


XB: Specs = {**X, "B": ("float32", ("C",))}


@pytest.mark.parametrize(
    ("op", "inputs", "expected"),
    [
        (operator("Add", ["X", "B"], ["Y"], broadcast=1, axis=1), XB, ["N", "C", "H"]),
        (operator("GT", ["X", "Z"], ["Y"]), XS, ["N", "C", "H"]),
        (operator("Cast", ["X"], ["Y"], to=6), X, ["N", "C", "H"]),
        (operator("ReduceSum", ["X"], ["Y"], axes=[1]), X, ["N", 1, "H"]),
        (operator("ReduceMax", ["X"], ["Y"], axes=[1], keepdims=0), X, ["N", "H"]),
        (operator("ReduceFrontMean", ["X"], ["Y"], num_reduce_dim=2), X, ["H"]),
        (operator("ReduceBackSum", ["X"], ["Y"]), X, ["N", "C"]),
        (operator("SumReduceLike", ["X", "B"], ["Y"], axis=1), XB, ["C"]),
        (operator("SquaredL2Distance", ["X", "Z"], ["Y"]), XS, ["N"]),
        (operator("MakeTwoClass", ["X"], ["Y"]), X, ["N", "C", "H", 2]),
        (operator("ConstantFill", ["X"], ["Y"], value=2.0, extra_shape=[4]), X, ["N", "C", "H", 4]),
        (operator("GaussianFill", ["X"], ["Y"]), X, ["N", "C", "H"]),
        (operator("SigmoidCrossEntropyWithLogits", ["X", "Z"], ["Y"]), XS, ["N", "C"]),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else None,
)
def test_named_dims_stay(op: OperatorDef, inputs: Specs, expected: list[int | str]) -> None:
    assert dims(export(op, inputs)) == expected


@pytest.mark.parametrize(
    ("op_type", "dtype"),
    [("And", "int32"), ("Not", "float32"), ("Log", "int32"), ("MatMul", "int64"), ("Mod", "float32"), ("Sum", "bool")],
)
def test_element_types_without_meaning_are_refused(op_type: str, dtype: str) -> None:
    names = ["X"] if op_type in {"Not", "Log", "Mod"} else ["X", "Z"]
    op = operator(op_type, names, ["Y"], **({"divisor": 2} if op_type == "Mod" else {}))
    with pytest.raises(ConversionError, match=r"must be .*, not (INT32|INT64|FLOAT|BOOL)"):
        export(op, dict.fromkeys(names, (dtype, ("N", "N"))))


def test_floats_as_text_are_refused() -> None:
    with pytest.raises(ConversionError, match="six decimals"):
        export(operator("Cast", ["X"], ["Y"], to="STRING"), X)


def test_large_constants_are_not_stored() -> None:
    model = export(operator("ConstantFill", [], ["Y"], shape=[1 << 20, 1 << 20], value=1.0), {})
    assert model.ByteSize() < 10_000


@pytest.mark.parametrize(("values", "total"), [([1, 0, 2**31 - 1], -(2**31)), ([2**24 + 1, 1], 2**24 + 2)])
def test_sums_of_integers_wrap_around(values: list[int], total: int) -> None:
    model = export(operator("SumElementsInt", ["X"], ["Y"]), {"X": ("int32", (None,))})
    (found,) = run(model, {"X": np.array(values, np.int32)})
    assert (found.dtype, int(found)) == (np.int32, total)


@pytest.mark.parametrize(("threshold", "low"), [(0.0, [0, 1]), (float("nan"), [])])
def test_a_nan_is_not_up_to_a_threshold(threshold: float, low: list[int]) -> None:
    x = np.array([-1, 0, 1, np.nan], np.float32)
    stump = operator("StumpFunc", ["X"], ["Y"], threshold=threshold, low_value=1.0, high_value=2.0)
    index = operator("StumpFuncIndex", ["X"], ["L", "H"], threshold=threshold)
    (values,) = run(export(stump, {"X": ("float32", (None,))}), {"X": x})
    assert values.tolist() == [1.0 if i in low else 2.0 for i in range(4)]
    found = run(export(index, {"X": ("float32", (None,))}), {"X": x})
    assert [indices.tolist() for indices in found] == [low, [i for i in range(4) if i not in low]]


@pytest.mark.parametrize("count", [0, 1])
def test_positions_of_few_columns(count: int) -> None:
    positions = np.array([[0, 1], [3, 3]], np.int32)
    op = operator("SinusoidPositionEncoding", ["X"], ["Y"], embedding_size=count)
    (y,) = run(export(op, {"X": ("int32", ("N", "M"))}), {"X": positions})
    np.testing.assert_allclose(y, np.sin([[[0.0], [0]], [[3], [3]]])[:, :, :count], atol=1e-6)


def test_positions_of_fewer_than_no_columns() -> None:
    op = operator("SinusoidPositionEncoding", ["X"], ["Y"], embedding_size=-4)
    with pytest.raises(ConversionError, match="embedding_size must not be negative, but is -4"):
        export(op, {"X": ("int32", ("N", "M"))})
