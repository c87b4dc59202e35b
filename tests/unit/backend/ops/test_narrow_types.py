"""Types that Caffe2 has no tensors of, stored as their bits, against the rounding of ml_dtypes."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.lowering.types import CAFFE2_TYPES, STORED_AS, STRING
from caffe2_bridge.diagnostics import ConversionError

FLOATS: Final = tuple(dtype for dtype in STORED_AS if not dtype.is_integer())
EIGHT_BITS: Final = tuple(dtype for dtype in FLOATS if dtype.bitwidth <= 8)


def model(source: str, target: str, to: int, more: str = "") -> Any:
    text = (
        f'<ir_version: 13, opset_import: ["": 25]> g ({source}[N] x) => ({target}[N] y) '
        f"{{ y = Cast<to = {to}{more}>(x) }}"
    )
    return to_netdef(parser.parse_model(text))


def name_of(dtype: ir.DataType) -> str:
    return dtype.name.lower()


def near(dtype: ir.DataType) -> Any:
    """Return numbers of the type, floats halfway between two of them, and floats beside those."""
    bits = np.arange(1 << 8 if dtype.bitwidth == 8 else 1 << dtype.bitwidth, dtype=np.uint16)
    if dtype.bitwidth == 16:
        bits = bits[::97]
    values = bits.astype(STORED_AS[dtype].numpy()).view(dtype.numpy()).astype(np.float32)
    finite = np.unique(values[np.isfinite(values)])
    between = (finite[1:] / 2 + finite[:-1] / 2).astype(np.float32)
    beside = [np.nextafter(between, np.float32(way), dtype=np.float32) for way in (-np.inf, np.inf)]
    # ml_dtypes and ONNX differ beyond the largest number, see below.
    return np.concatenate([finite, between, *beside, np.array([0.0, -0.0], np.float32)])


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_rounding_is_exact(dtype: ir.DataType) -> None:
    x = near(dtype)
    found = Predictor(model("float", name_of(dtype), int(dtype))).run({"x": x})["y"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, x.astype(dtype.numpy()).view(STORED_AS[dtype].numpy()))


@pytest.mark.parametrize("dtype", FLOATS, ids=name_of)
def test_all_numbers_are_read(dtype: ir.DataType) -> None:
    bits = np.arange(1 << dtype.bitwidth).astype(STORED_AS[dtype].numpy())
    found = Predictor(model(name_of(dtype), "float", 1)).run({"x": bits})["y"]
    np.testing.assert_array_equal(found, bits.view(dtype.numpy()).astype(np.float32))


@pytest.mark.parametrize(
    ("dtype", "saturates", "expected"),
    [
        (ir.DataType.FLOAT8E4M3FN, 1, [448, 448, -448]),
        (ir.DataType.FLOAT8E4M3FN, 0, [np.nan, np.nan, np.nan]),
        (ir.DataType.FLOAT8E4M3FNUZ, 1, [240, 240, -240]),
        (ir.DataType.FLOAT8E4M3FNUZ, 0, [np.nan, np.nan, np.nan]),
        (ir.DataType.FLOAT8E5M2, 1, [57344, 57344, -57344]),
        (ir.DataType.FLOAT8E5M2, 0, [np.inf, np.inf, -np.inf]),
        (ir.DataType.FLOAT8E5M2FNUZ, 1, [57344, 57344, -57344]),
    ],
)
def test_beyond_the_largest(dtype: ir.DataType, saturates: int, expected: list[float]) -> None:
    x = np.array([1e9, np.inf, -np.inf, np.nan], np.float32)
    found = Predictor(model("float", name_of(dtype), int(dtype), f", saturate = {saturates}")).run({"x": x})["y"]
    np.testing.assert_array_equal(found.view(dtype.numpy()).astype(np.float32), [*expected, np.nan])


WEIGHTS: Final = np.array([[-8, 7, 3], [0, -1, 5]])


def weight_only(dtype: ir.DataType) -> Any:
    """Return a product with weights that DequantizeLinear makes of an initializer, as language models have them."""
    graph = ir.Graph([], [], nodes=[], name="g", opset_imports={"": 21})
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["N", 2]))
    graph.inputs.append(x)
    tensors = {"w": ir.Tensor(WEIGHTS.astype(dtype.numpy()), dtype=dtype), "s": ir.Tensor(np.array(0.5, np.float32))}
    values = {name: ir.Value(name=name, const_value=tensor) for name, tensor in tensors.items()}
    for value in values.values():
        assert value.const_value is not None
        value.type, value.shape = ir.TensorType(value.const_value.dtype), ir.Shape(value.const_value.shape)
        graph.register_initializer(value)
    real = ir.Node("", "DequantizeLinear", list(values.values()), num_outputs=1)
    product = ir.Node("", "MatMul", [x, real.outputs[0]], num_outputs=1)
    graph.extend([real, product])
    y = product.outputs[0]
    y.name, y.type, y.shape = "y", ir.TensorType(ir.DataType.FLOAT), ir.Shape(["N", 3])
    graph.outputs.append(y)
    return ir.Model(graph, ir_version=10)


@pytest.mark.oracle
def test_weights_in_real_caffe2() -> None:
    x, dtypes = np.eye(2, dtype=np.float32), (ir.DataType.INT4, ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT4E2M1)
    runs = []
    for dtype in dtypes:
        net = to_netdef(weight_only(dtype))
        runs.append(OracleRun(net.predict_net, {"x": x}, net.init_net, ["y"]))
    for dtype, result in zip(dtypes, run_oracle(runs), strict=True):
        assert result.error == "", dtype
        expected = WEIGHTS.astype(dtype.numpy()).astype(np.float32) * 0.5
        np.testing.assert_array_equal(result.outputs["y"], expected, err_msg=dtype.name)


@pytest.mark.parametrize("signed", [True, False])
def test_integers_wrap_around(signed: bool) -> None:
    dtype, own = (ir.DataType.INT4, ml_dtypes.int4) if signed else (ir.DataType.UINT4, ml_dtypes.uint4)
    x = np.arange(-20, 20)
    found = Predictor(model("int64", name_of(dtype), int(dtype))).run({"x": x})["y"]
    np.testing.assert_array_equal(found.view(own).astype(int), x.astype(own).astype(int))
    back = Predictor(model(name_of(dtype), "int64", 7)).run({"x": found})["y"]
    np.testing.assert_array_equal(back, x.astype(own).astype(int))


EYES: Final = (*STORED_AS, *(dtype for dtype in CAFFE2_TYPES if dtype != STRING))


def eye(dtype: str, number: int, dims: str = "2,3") -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 13, opset_import: ["": 25]> g (float[{dims}] x) => ({dtype}[{dims}] y) '
        f"{{ y = EyeLike<dtype = {number}, k = 1>(x) }}"
    )


def eye_bits(dtype: ir.DataType) -> Any:
    return np.eye(2, 3, 1).astype(dtype.numpy()).view(STORED_AS.get(dtype, dtype).numpy())


@pytest.mark.parametrize("dims", ["2,3", "N,M"])
@pytest.mark.parametrize("dtype", EYES, ids=name_of)
def test_constants_that_a_conversion_computes_are_stored_as_bits_too(dtype: ir.DataType, dims: str) -> None:
    net = to_netdef(eye(name_of(dtype), int(dtype), dims))
    found = Predictor(net).run({"x": np.zeros((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(found, eye_bits(dtype))


@pytest.mark.oracle
def test_constants_of_all_types_in_real_caffe2() -> None:
    nets = [to_netdef(eye(name_of(dtype), int(dtype), dims)) for dtype in EYES for dims in ("2,3", "N,M")]
    runs = [OracleRun(net.predict_net, {"x": np.zeros((2, 3), np.float32)}, net.init_net, ["y"]) for net in nets]
    for dtype, result in zip((dtype for dtype in EYES for _ in range(2)), run_oracle(runs), strict=True):
        assert result.error == "", dtype
        np.testing.assert_array_equal(result.outputs["y"], eye_bits(dtype), err_msg=dtype.name)


@pytest.mark.parametrize("dtype", STORED_AS, ids=name_of)
def test_constants_of_such_types_are_carried(dtype: ir.DataType) -> None:
    carried = to_netdef(eye(name_of(dtype), int(dtype)), foreign="carry")
    assert [op.domain for op in carried.predict_net.op] == ["ai.onnx"]


@pytest.mark.parametrize("dtype", [ir.DataType.COMPLEX64, ir.DataType.FLOAT8E8M0, ir.DataType.STRING], ids=name_of)
def test_constants_of_types_without_bits_are_refused(dtype: ir.DataType) -> None:
    with pytest.raises(ConversionError, match=name_of(dtype)):
        to_netdef(eye(name_of(dtype), int(dtype)))


def test_carried_models_keep_their_types() -> None:
    text = '<ir_version: 10, opset_import: ["": 21]> g (bfloat16[N] x) => (float[N] y) { y = Cast<to = 1>(x) }'
    net = to_netdef(parser.parse_model(text), foreign="carry")
    assert [op.domain for op in net.predict_net.op] == ["ai.onnx"]
