"""DynamicQuantizeLSTM through its definition, against onnxruntime's own kernel.

In one thread: in several, the kernel quantizes the rows of each thread on their own.

Modules: recurrent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import numpy_helper, parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import ConversionError

T, N, WIDTH, H = 4, 2, 3, 5
OUTPUTS: Final = ["y", "h", "c"]


def quantized_lstm(
    direction: str,
    *,
    states: bool,
    folder: Path,
    per_channel: bool = False,
    peepholes: bool = False,
    lengths: tuple[int, ...] = (),
) -> onnx.ModelProto:
    """Return an LSTM of random weights, as onnxruntime's dynamic quantization writes it."""
    from onnxruntime import quantization

    dirs, rng = 2 if direction == "bidirectional" else 1, np.random.default_rng(3)
    given = f", float[{dirs},N,{H}] h0, float[{dirs},N,{H}] c0" if states else ""
    more = (f", {'lens' if lengths else ''}, h0, c0" if states else "") + (", p" if peepholes else "")
    given += ", int32[N] lens" if lengths else ""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[T,N,{WIDTH}] x{given}) => '
        f"(float[T,{dirs},N,{H}] y, float[{dirs},N,{H}] h, float[{dirs},N,{H}] c) "
        f'{{ y, h, c = LSTM<hidden_size = {H}, direction = "{direction}">(x, w, r, b{more}) }}'
    )
    for name, shape in (
        ("w", (dirs, 4 * H, WIDTH)),
        ("r", (dirs, 4 * H, H)),
        ("b", (dirs, 8 * H)),
        ("p", (dirs, 3 * H)),
    ):
        if name != "p" or peepholes:
            values = rng.normal(scale=0.5, size=shape).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
    onnx.save(model, folder / "float.onnx")
    quantization.quantize_dynamic(
        folder / "float.onnx", folder / "int8.onnx", weight_type=quantization.QuantType.QInt8, per_channel=per_channel
    )
    made = onnx.load(folder / "int8.onnx")  # noqa: TID251 - a file that the test made
    assert [node.op_type for node in made.graph.node] == ["DynamicQuantizeLSTM"]
    return made


def feed(direction: str, *, states: bool, lengths: tuple[int, ...] = ()) -> dict[str, Any]:
    rng, dirs = np.random.default_rng(4), 2 if direction == "bidirectional" else 1
    made = {"x": rng.normal(size=(T, N, WIDTH)).astype(np.float32)}
    if states:
        made |= {name: rng.normal(size=(dirs, N, H)).astype(np.float32) for name in ("h0", "c0")}
    return made | ({"lens": np.array(lengths, np.int32)} if lengths else {})


CASES: Final = {
    "forward": ("forward", False, False, False, ()), "reverse": ("reverse", True, False, False, ()),
    "both": ("bidirectional", True, False, False, ()), "channels": ("forward", True, True, False, ()),
    "peepholes": ("bidirectional", True, False, True, ()), "lengths": ("forward", True, False, True, (T - 1, T)),
    "lengths, both": ("bidirectional", True, False, False, (T, 2)),
    "no length": ("forward", True, False, False, (T, 0)),
}  # fmt: skip


def model_and_feed(name: str, folder: Path) -> tuple[onnx.ModelProto, dict[str, Any]]:
    direction, states, per_channel, peepholes, lengths = CASES[name]
    model = quantized_lstm(
        direction, states=states, folder=folder, per_channel=per_channel, peepholes=peepholes, lengths=lengths
    )
    return model, feed(direction, states=states, lengths=lengths)


@pytest.mark.parametrize("name", CASES)
def test_here(name: str, tmp_path: Path) -> None:
    model, fed = model_and_feed(name, tmp_path)
    expected = OnnxSession(model.SerializeToString(), threads=1).run_values(fed)
    found = Predictor(to_netdef(model)).run(fed)
    for key, value in zip(OUTPUTS, expected, strict=True):
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.oracle
def test_in_real_caffe2(tmp_path: Path) -> None:
    runs, results = [], []
    for name in CASES:
        model, fed = model_and_feed(name, tmp_path)
        net = to_netdef(model)
        runs.append(OracleRun(net.predict_net, fed, net.init_net, OUTPUTS))
        results.append(OnnxSession(model.SerializeToString(), threads=1).run_values(fed))
    for name, result, expected in zip(CASES, run_oracle(runs), results, strict=True):
        assert result.error == "", name
        for key, value in zip(OUTPUTS, expected, strict=True):
            np.testing.assert_allclose(result.outputs[key], value, rtol=1e-4, atol=1e-5, err_msg=f"{name} {key}")


def test_what_is_not_defined_is_reported(tmp_path: Path) -> None:
    model = quantized_lstm("forward", states=False, folder=tmp_path)
    model.graph.node[0].attribute.add(name="clip", f=1.0, type=onnx.AttributeProto.FLOAT)
    with pytest.raises(ConversionError, match="DynamicQuantizeLSTM"):
        to_netdef(model)
