"""The bits of floats, doubles rounded to float16, and integers to fractional powers, against NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend import Predictor, to_netdef

FLOATS: Final = [0.0, -0.0, 1.0, -1.5, 0.1, -3e4, 6e-8, 2.0**-24, -(2.0**-14), 65504.0, np.inf, -np.inf]
SINGLES: Final = np.array([*FLOATS, 1e-45, -1e-40, 2.0**-126, 3e38, -1e-30, 2.0**-149 * 8388607], np.float32)
DOUBLES: Final = np.array([*SINGLES, 5e-324, 1e-310, 2.0**-1022, -1e300, np.finfo(np.float64).max, 1 / 3])
HALVES: Final = np.array(FLOATS, np.float16)
WHOLE: Final = np.array([0, 1, -1, 5, 1 << 20, -(1 << 31), 0x7F800000, 0x3F800001, -0x00800000, 0x7FFFFF], np.int32)
# Between two numbers of float16: exactly halfway, and so close to it that float rounds to halfway.
TIES: Final = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 65519.999, 65520.0, 1e9, 2.0**-15 + 2.0**-26])
NEAR: Final = np.concatenate([TIES, TIES * (1 - 2.0**-40), TIES * (1 + 2.0**-40), -TIES * (1 + 2.0**-45), [np.nan]])
with np.errstate(over="ignore"):
    ROUNDED: Final = NEAR.astype(np.float16)

CASES: Final[dict[str, tuple[str, str, str, dict[str, Any], Any]]] = {
    "float bits": ("float[N] x", "int32[N] y", "y = BitCast<to = 6>(x)", {"x": SINGLES}, SINGLES.view(np.int32)),
    "double bits": ("double[N] x", "int64[N] y", "y = BitCast<to = 7>(x)", {"x": DOUBLES}, DOUBLES.view(np.int64)),
    "half bits": ("float16[N] x", "int16[N] y", "y = BitCast<to = 5>(x)", {"x": HALVES}, HALVES.view(np.int16)),
    "to float": ("int32[N] x", "float[N] y", "y = BitCast<to = 1>(x)", {"x": WHOLE}, WHOLE.view(np.float32)),
    "to double": (
        "int64[N] x", "double[N] y", "y = BitCast<to = 11>(x)", {"x": DOUBLES.view(np.int64)}, DOUBLES,
    ),
    "to half": ("int16[N] x", "float16[N] y", "y = BitCast<to = 10>(x)", {"x": HALVES.view(np.int16)}, HALVES),
    "rounded once": ("double[N] x", "float16[N] y", "y = Cast<to = 10>(x)", {"x": NEAR}, ROUNDED),
    "powers": (
        "int32[N] x, float[N] p", "int32[N] y", "y = Pow(x, p)",
        {"x": np.array([3, -2, 4, 9, 10, -1], np.int32), "p": np.array([4, 3, 0.5, 1.5, -1, 101], np.float32)},
        np.array([81, -8, 2, 27, 0, -1], np.int32),
    ),
    "transform": (
        "float[2,6,N,1] x, int64 a", "float[2,M,N,2] y", 'y = DFT(x, "", a)',
        {"x": np.arange(60, dtype=np.float32).reshape(2, 6, 5, 1), "a": np.array(-3)},
        np.stack([
            getattr(np.fft.fft(np.arange(60.0).reshape(2, 6, 5), axis=1), part) for part in ("real", "imag")
        ], -1).astype(np.float32),
    ),
}  # fmt: skip


def model(inputs: str, outputs: str, body: str) -> Any:
    opset = 26 if "BitCast" in body else 20
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    return to_netdef(parser.parse_model(text))


def check(name: str, actual: Any) -> None:
    expected = CASES[name][-1]
    assert actual.dtype == expected.dtype
    if name == "transform":
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-5)
        return
    np.testing.assert_array_equal(actual, expected, err_msg=name)
    if actual.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(actual[~np.isnan(actual)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("name", CASES)
def test_here(name: str) -> None:
    *texts, feed, _ = CASES[name]
    check(name, Predictor(model(*texts)).run(feed)["y"])


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = []
    for *texts, feed, _ in CASES.values():
        made = model(*texts)
        runs.append(OracleRun(made.predict_net, feed, made.init_net, ["y"]))
    for name, result in zip(CASES, run_oracle(runs), strict=True):
        assert result.error == "", name
        check(name, result.outputs["y"])


def test_nan_has_bits() -> None:
    bits = Predictor(model("float[N] x", "int32[N] y", "y = BitCast<to = 6>(x)")).run({"x": np.float32([np.nan])})["y"]
    assert np.isnan(bits.view(np.float32)).all()


def test_a_dropout_whose_mode_is_an_input() -> None:
    net = model("float[100,100] x, float r, bool t", "float[100,100] y, bool[100,100] m", "y, m = Dropout(x, r, t)")
    predictor = Predictor(net)
    x = np.ones((100, 100), np.float32)
    off = predictor.run({"x": x, "r": np.float32(0.25), "t": np.bool_(0)})
    assert (off["y"] == 1).all()
    assert off["m"].all()
    on = predictor.run({"x": x, "r": np.float32(0.25), "t": np.bool_(1)})
    assert 0.7 < on["m"].mean() < 0.8
    np.testing.assert_allclose(on["y"], on["m"] / 0.75, rtol=1e-6)
