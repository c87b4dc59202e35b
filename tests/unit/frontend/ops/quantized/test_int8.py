"""Int8 tensors: what is refused, what stays symbolic, and what a branch hands out."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from conformance.recording import ArgumentValue, operator
from support.exports import dims, export, run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

BYTES = ("uint8", ["N", "H", "W", 4], (0.05, 121))
WEIGHT = ("uint8", [6, 3, 3, 4], (0.01, 140))
BIAS = ("int32", [6], (0.0005, 0))


def q(scale: float = 0.05, zero_point: int = 121) -> dict[str, ArgumentValue]:
    return {"Y_scale": scale, "Y_zero_point": zero_point}


def convert(*ops: OperatorDef, **inputs: Any) -> onnx.ModelProto:
    return export(ops, inputs)


def reason(*ops: OperatorDef, **inputs: Any) -> str:
    with pytest.raises(ConversionError) as caught:
        convert(*ops, **inputs)
    return caught.value.errors[0].reason


def test_the_sizes_of_an_image_stay_symbolic() -> None:
    convolution = operator("Int8Conv", ["X", "W", "B"], ["Y"], kernel=3, pad=1, order="NHWC", **q(0.1))
    model = convert(convolution, X=BYTES, W=WEIGHT, B=BIAS)
    assert dims(model)[0] == "N"
    assert dims(model)[3] == 6
    assert model.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8


def test_what_moves_bytes_keeps_every_dim() -> None:
    assert dims(convert(operator("Int8Relu", ["X"], ["Y"], **q()), X=BYTES)) == ["N", "H", "W", 4]


def test_a_scale_that_is_unknown_is_a_finding() -> None:
    assert "'X' are unknown" in reason(operator("Int8Dequantize", ["X"], ["Y"]), X=("uint8", [2]))


def test_a_scale_that_the_operator_cannot_change_must_be_repeated() -> None:
    assert "must be those of the input" in reason(operator("Int8Relu", ["X"], ["Y"], **q(0.1)), X=BYTES)


def test_a_zero_point_is_a_byte() -> None:
    assert "Y_zero_point between 0 and 255 (300)" in reason(
        operator("Int8Quantize", ["X"], ["Y"], **q(0.1, 300)), X=("float32", [2])
    )


def test_scales_that_are_no_fraction_are_refused() -> None:
    convolution = operator("Int8Conv", ["X", "W", "B"], ["Y"], kernel=3, order="NHWC", **q(0.0005))
    assert "must be less than Y_scale" in reason(convolution, X=BYTES, W=WEIGHT, B=BIAS)


def test_channels_first_is_refused() -> None:
    convolution = operator("Int8Conv", ["X", "W", "B"], ["Y"], kernel=3, **q(0.1))
    assert "NHWC" in reason(convolution, X=BYTES, W=WEIGHT, B=BIAS)


def test_sigmoid_and_softmax_have_one_scale() -> None:
    for op_type in ("Int8Sigmoid", "Int8Softmax"):
        assert "1/256" in reason(operator(op_type, ["X"], ["Y"], **q()), X=BYTES)


def test_another_engine_is_another_operator() -> None:
    pool = operator("Int8AveragePool", ["X"], ["Y"], kernel=2, order="NHWC", **q())
    pool.engine = "DNNLOWP"
    assert "DNNLOWP" in reason(pool, X=BYTES)
    assert "DNNLOWP" in reason(operator("Int8FCRelu", ["X", "W", "B"], ["Y"], **q()), X=BYTES, W=WEIGHT, B=BIAS)


def test_branches_that_scale_otherwise_give_no_int8_tensor() -> None:
    def body(scale: float) -> NetDef:
        return NetDef(op=[operator("Int8Quantize", ["F"], ["A"], **q(scale))])

    choice = operator("If", ["C"], [], then_net=body(0.1), else_net=body(0.2))
    first = operator("Int8Quantize", ["F"], ["A"], **q(0.1))
    last = operator("Int8Dequantize", ["A"], ["Y"])
    assert "are unknown" in reason(first, choice, last, F=("float32", [2]), C=("bool", [1]))


@pytest.mark.parametrize("taken", [False, True])
def test_an_output_whose_branches_differ_in_rank_keeps_them(*, taken: bool) -> None:
    net = NetDef(
        op=[
            operator("ConstantFill", [], ["Y"], shape=[1]),
            operator("If", ["C"], [], then_net=NetDef(op=[operator("Copy", ["X"], ["Y"])])),
        ],
        external_input=["C", "X"],
        external_output=["Y"],
    )
    model = to_onnx(net, inputs={"C": ("bool", [1]), "X": ("float32", ["N", 3])})
    assert not model.graph.output[0].type.tensor_type.HasField("shape")
    x = np.ones((2, 3), np.float32)
    (y,) = run(model, {"C": np.array([taken]), "X": x})
    assert y.shape == (x.shape if taken else (1,))


@pytest.mark.parametrize("op_type", ["Int8Add", "Int8Sum", "Int8SumRelu", "Int8Quantize"])
def test_without_a_stated_scale_dnnlowp_takes_it_from_the_data(op_type: str) -> None:
    names = ["X"] if op_type == "Int8Quantize" else ["X", "Z"]
    op = operator(op_type, names, ["Y"])
    op.engine = "DNNLOWP"
    inputs = {"X": ("float32", [2])} if op_type == "Int8Quantize" else dict.fromkeys(names, BYTES)
    assert "the scale depends on the data" in reason(op, **inputs)
