"""Converters of arithmetic, where a recorded case cannot show it: refusals, named dims, random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import ERRORS_FILE, Array
from conformance.recording import operator, read_recorded

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_frontend import to_onnx

SPECS = ("mathematics.py", "reduction.py", "fill.py")
Specs = Mapping[str, tuple[Any, tuple[int | str, ...]]]

X: Specs = {"X": ("float32", ("N", "C", "H"))}
XS: Specs = {**X, "Z": ("float32", ("N", "C", "H"))}
XB: Specs = {**X, "B": ("float32", ("C",))}


def refused() -> list[Any]:
    return [
        pytest.param(recorded, id=f"{recorded.meta['test']}-{recorded.meta['types'][0]}")
        for recorded in read_recorded(GOLDEN / "recorded" / ERRORS_FILE)
        if recorded.meta["test"].split("::")[0] in SPECS
    ]


def export(op: OperatorDef, inputs: Specs) -> onnx.ModelProto:
    return to_onnx(NetDef(op=[op]), inputs=inputs, outputs=list(op.output))


def run(op: OperatorDef, inputs: Mapping[str, Array]) -> list[Array]:
    model = export(op, {name: (array.dtype, ("N",) * array.ndim) for name, array in inputs.items()})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


@pytest.mark.parametrize("recorded", refused())
def test_what_caffe2_refuses_is_refused(recorded: Any) -> None:
    op = OperatorDef.FromString(recorded.proto)
    arrays = {name[3:]: array for name, array in recorded.arrays.items() if name.startswith("in/")}
    with pytest.raises(ConversionError):
        export(op, {name: (array.dtype, array.shape) for name, array in arrays.items()})


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
    shape = export(op, inputs).graph.output[0].type.tensor_type.shape
    assert [d.dim_param or d.dim_value for d in shape.dim] == expected


def test_sizes_are_not_in_the_graph() -> None:
    op = operator("LambdaRankNdcg", ["y", "r", "n"], ["loss", "slope"])
    scores = ("float32", ("N",))
    one = export(op, {"y": scores, "r": scores, "n": ("int32", (1,))})
    many = export(op, {"y": scores, "r": scores, "n": ("int32", (1000,))})
    assert len(one.graph.node) == len(many.graph.node)


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


@pytest.mark.parametrize("hierarchy", [b"", b"\x12", b"\x12\x08\x12\x06\x10\xff\xff\xff\xff\x07"])
def test_what_is_no_hierarchy_is_refused(hierarchy: bytes) -> None:
    weights: Specs = {"X": ("float32", ("N", 5)), "W": ("float32", (13, 5)), "b": ("float32", (13,))}
    op = operator("HSoftmax", ["X", "W", "b", "l"], ["Y", "Z"], hierarchy=hierarchy)
    with pytest.raises(ConversionError, match="hierarchy"):
        export(op, {**weights, "l": ("int32", ("N",))})


LIKE = np.zeros((200, 100), "float32")


@pytest.mark.parametrize(
    ("op", "mean", "deviation", "least", "greatest"),
    [
        (operator("UniformFill", ["X"], ["Y"], min=2.0, max=4.0), 3, 2 / 12**0.5, 2, 4),
        (operator("UniformIntFill", ["X"], ["Y"], min=1, max=3), 2, (2 / 3) ** 0.5, 1, 3),
        (operator("GaussianFill", ["X"], ["Y"], mean=1.0, std=2.0), 1, 2, -20, 20),
        (operator("XavierFill", ["X"], ["Y"]), 0, 0.1, -(0.03**0.5), 0.03**0.5),
        (operator("MSRAFill", ["X"], ["Y"]), 0, 0.1, -1, 1),
    ],
    ids=lambda value: value.type if isinstance(value, OperatorDef) else None,
)
def test_random_numbers_have_their_distribution(
    op: OperatorDef, mean: float, deviation: float, least: float, greatest: float
) -> None:
    op.device_option.CopyFrom(DeviceOption(random_seed=7))
    (drawn,) = run(op, {"X": LIKE})
    assert drawn.shape == LIKE.shape
    assert drawn.mean() == pytest.approx(mean, abs=deviation / 20)
    assert drawn.std() == pytest.approx(deviation, rel=0.05)
    assert least <= drawn.min()
    assert drawn.max() <= greatest


def test_unique_numbers_are_unique_and_avoid() -> None:
    op = operator("UniqueUniformFill", ["X", "avoid"], ["Y"], min=10, max=19)
    op.device_option.CopyFrom(DeviceOption(random_seed=7))
    (drawn,) = run(op, {"X": np.zeros((2, 3), "float32"), "avoid": np.array([12, 5, 19, 99], "int32")})
    assert drawn.shape == (2, 3)
    assert len(set(drawn.ravel().tolist())) == 6
    assert set(drawn.ravel().tolist()) <= {10, 11, 13, 14, 15, 16, 17, 18}


def test_a_seed_repeats_the_numbers() -> None:
    op = operator("GaussianFill", ["X"], ["Y"])
    op.device_option.CopyFrom(DeviceOption(random_seed=11))
    np.testing.assert_array_equal(run(op, {"X": LIKE}), run(op, {"X": LIKE}))


def test_half_uniform_is_half() -> None:
    (drawn,) = run(operator("Float16UniformFill", [], ["Y"], shape=[50, 2], min=1.0, max=2.0), {})
    assert drawn.dtype == np.float16
    assert drawn.min() >= 1
    assert drawn.max() <= 2
