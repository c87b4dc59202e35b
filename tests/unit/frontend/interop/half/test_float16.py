"""Models in half precision: close to float32, valid with bodies, and float32 where float16 cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
import pytest
from conformance.__main__ import GOLDEN
from conformance.corpus import Array, find_cases, read_case
from conformance.recording import operator
from onnx import TensorProto, numpy_helper
from support.cells import fills
from support.exports import node_types, run

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import ExportOptions, analyze, to_onnx
from caffe2_frontend.pipeline import complete

RELATIVE: Final = 5e-3
BODIES: Final = {
    "models/basic_rnn_relu": "scan", "models/lstm": "loop", "models/control_while": "auto",
    "nets/rnn_cell_test": "scan",
}  # fmt: skip


def half(*ops: OperatorDef, init: NetDef | None = None, inputs: Mapping[str, Any], **options: Any) -> onnx.ModelProto:
    return to_onnx(NetDef(name="n", op=ops), init, inputs=inputs, outputs=list(ops[-1].output), fp16=True, **options)


def as_fed(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return the inputs that the model has, as float16 where it wants those."""
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    return {
        name: inputs[name].astype(np.float16) if kind == TensorProto.FLOAT16 else inputs[name]
        for name, kind in kinds.items()
    }


@pytest.mark.parametrize("io", ["float16", "float32"])
@pytest.mark.parametrize("name", BODIES)
def test_bodies_are_converted(name: str, io: Any) -> None:
    path = GOLDEN / name
    case = read_case(find_cases(path if path.is_dir() else path.with_suffix(".npz"))[0])
    inputs = {key: (array.dtype, array.shape) for key, array in case.inputs.items()}
    choices: dict[str, Any] = {"inputs": inputs, "outputs": list(case.outputs), "recurrent": BODIES[name]}
    model = to_onnx(case.net, case.init_net, fp16=True, fp16_io=io, **choices)
    assert {"Scan", "Loop"}.intersection(node_types(model.graph))
    exact = to_onnx(case.net, case.init_net, **choices)
    for found, expected in zip(
        run(model, as_fed(model, case.inputs)), run(exact, as_fed(exact, case.inputs)), strict=True
    ):
        assert found.dtype == (np.dtype(io) if expected.dtype == np.float32 else expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=RELATIVE, atol=RELATIVE)


def test_large_weights_become_float16() -> None:
    w = np.random.default_rng(0).standard_normal((60, 50), np.float32)
    layer = operator("FC", ["x", "w", "b"], ["y"])
    model = half(layer, init=fills({"w": w, "b": np.ones(60, np.float32)}), inputs={"x": ("float32", ["N", 50])})
    assert {tensor.data_type for tensor in model.graph.initializer} == {TensorProto.FLOAT16}
    assert sum(len(tensor.raw_data) for tensor in model.graph.initializer) == 2 * (60 * 50 + 60)
    x = np.random.default_rng(1).standard_normal((3, 50), np.float32)
    np.testing.assert_allclose(run(model, {"x": x.astype(np.float16)})[0], x @ w.T + 1, rtol=0.02, atol=0.02)


def test_numbers_beyond_the_range_are_clamped_with_a_warning() -> None:
    w = np.ones((60, 50), np.float32)
    w[0, 0], w[1, 1], w[2, 2] = 1e6, -1e-9, -np.inf
    layer = operator("FC", ["x", "w", "b"], ["y"])
    net = NetDef(name="n", op=[layer], external_output=["y"])
    options = ExportOptions(inputs={"x": ("float32", [1, 50])}, fp16=True)
    export = analyze(net, fills({"w": w, "b": np.ones(60, np.float32)}), options)
    state = complete(export)
    (warning,) = [finding for finding in state.findings if finding.code == "float16-range"]
    assert "2 numbers of 'w'" in warning.reason
    assert state.model is not None
    stored = state.model.graph.initializers["w"].const_value
    assert stored is not None
    values = stored.numpy().reshape(60, 50) if stored.shape[0] == 60 else stored.numpy().T
    assert values[0, 0] == 65504
    assert -1e-7 < values[1, 1] < 0
    assert values[2, 2] == -np.inf


def test_indices_are_computed_in_float32() -> None:
    """2049 and 4097 are no numbers of float16."""
    ops = [
        operator("Cast", ["i"], ["f"], to=1),
        operator("Mul", ["f", "two"], ["g"]),
        operator("Cast", ["g"], ["j"], to=2),
        operator("Gather", ["x", "j"], ["y"]),
    ]
    init = NetDef(op=[operator("GivenTensorFill", [], ["two"], shape=[1], values=[2.0])])
    model = half(*ops, init=init, inputs={"i": ("int32", [2]), "x": ("float32", [9000])})
    x = np.arange(9000, dtype=np.float32) % 2048
    (y,) = run(model, {"i": np.array([2049, 4097], np.int32), "x": x.astype(np.float16)})
    np.testing.assert_array_equal(y, x[[4098, 8194]])


def test_an_operator_that_float16_lacks_stays_in_a_body() -> None:
    """Convert TopK in the branches of an If: each has the casts of its own nodes."""

    def body(op_type: str) -> NetDef:
        return NetDef(op=[operator(op_type, ["x"], ["h"]), operator("TopK", ["h"], ["y", "k"], k=2)])

    start = operator("ConstantFill", [], ["y"], shape=[2, 2])
    choice = operator("If", ["c"], ["y"], then_net=body("Relu"), else_net=body("Negative"))
    model = half(start, choice, inputs={"x": ("float32", [2, 5]), "c": ("bool", [1])})
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float16)
    for taken in (True, False):
        (y,) = run(model, {"x": x, "c": np.array([taken])})
        expected = np.maximum(x, 0) if taken else -x
        np.testing.assert_array_equal(y, -np.sort(-expected, axis=1)[:, :2])


def test_the_caller_chooses_the_type_of_inputs_and_outputs() -> None:
    relu = operator("Relu", ["x"], ["y"])
    for io, kind in (("float16", TensorProto.FLOAT16), ("float32", TensorProto.FLOAT)):
        model = half(relu, inputs={"x": ("float32", [2])}, fp16_io=io)
        values = (*model.graph.input, *model.graph.output)
        assert [value.type.tensor_type.elem_type for value in values] == [kind, kind]


def test_what_stays_in_float32_is_noted() -> None:
    net = NetDef(name="n", op=[operator("TopK", ["x"], ["y", "i"], k=1)], external_output=["y"])
    export = analyze(net, options=ExportOptions(inputs={"x": ("float32", [2, 3])}, fp16=True))
    state = complete(export)
    assert any("stay in float32: 1 TopK" in finding.reason for finding in state.findings)


def test_quantized_groups_keep_their_scales() -> None:
    """Read the scale 0.05, which is no number of float16, by a float operator too."""
    how = {"Y_scale": 0.05, "Y_zero_point": 128}
    ops = [operator("Int8Quantize", ["x"], ["q"], **how), operator("Int8Dequantize", ["q"], ["y"])]
    model = half(*ops, inputs={"x": ("float32", [256])}, fp16_io="float32", int8="qdq")
    quantize = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    scales = [tensor for tensor in model.graph.initializer if tensor.name == quantize.input[1]]
    assert [numpy_helper.to_array(scale).item() for scale in scales] == [np.float32(0.05)]
    x = (np.arange(256, dtype=np.float32) - 128) * np.float32(0.05)
    np.testing.assert_allclose(run(model, {"x": x})[0], x, atol=0.01)
