"""Rows fused with their scale and bias: random rounding, and every float as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export, run

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx


@pytest.mark.parametrize("bits", [2, 8])
def test_random_codes_are_right_in_the_mean(bits: int) -> None:
    quantize = operator("FloatToFusedRandRowwiseQuantized", ["X"], ["Q"], bitwidth=bits)
    quantize.device_option.random_seed = 3
    net = NetDef(op=[quantize, operator("FusedRandRowwiseQuantizedToFloat", ["Q"], ["Y"])])
    x = np.tile(np.array([0, 0.3, 0.61, 1.0], "float32"), (20_000, 1))
    (y,) = run(to_onnx(net, inputs={"X": ("float32", ("N", "D"))}, outputs=["Y"]), {"X": x})
    np.testing.assert_allclose(y.mean(axis=0), x[0], atol=0.01)
    assert len(np.unique(y[:, 1])) == 2


@pytest.mark.parametrize(
    ("dtype", "quantize"),
    [
        ("float32", "FloatToFused8BitRowwiseQuantized"),
        ("float16", "FloatToFused8BitRowwiseQuantizedHalfScaleBias"),
    ],
)
def test_numbers_become_the_bytes_that_hold_them_and_back(dtype: str, quantize: str) -> None:
    info = np.finfo(dtype)
    edges = [0.0, -0.0, 1.0, -1.5, info.max, info.min, info.tiny, info.smallest_subnormal]
    random = np.random.default_rng(4).integers(0, 256, 4000, dtype="uint8").view(dtype)
    values = np.concatenate([np.array(edges, dtype), random[np.isfinite(random)]]).reshape(-1, 1)
    data = np.ascontiguousarray(values).view("uint8")
    # The least element of a row of one is its bias, which is stored last.
    width = data.shape[1]
    model = export(operator(quantize, ["X"], ["Y"]), {"X": ("float32", ("N", "D"))})
    (fused,) = run(model, {"X": values.astype("float32")})
    np.testing.assert_array_equal(fused[:, -width:], data)
    # A scale of 0 leaves the bias.
    fused[:, :-width] = 0
    name = "" if dtype == "float32" else "HalfScaleBias"
    model = export(operator(f"Fused8BitRowwiseQuantized{name}ToFloat", ["X"], ["Y"]), {"X": ("uint8", ("N", "D"))})
    np.testing.assert_array_equal(run(model, {"X": fused})[0], values.astype("float32"))


def test_dims_are_known() -> None:
    op = operator("SparseLengthsSumFused8BitRowwise", ["X", "I", "L"], ["Y"])
    inputs: Specs = {"X": ("uint8", (100, 24)), "I": ("int64", ("N",)), "L": ("int32", ("S",))}
    assert dims(export(op, inputs)) == ["S", 16]
