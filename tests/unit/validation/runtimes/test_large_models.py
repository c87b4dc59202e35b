"""Models that no message holds: each part of them is sent, or read, on its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator

from caffe2_backend import Predictor, validate
from caffe2_backend.runtime.sessions import model_session
from caffe2_bridge import Model, RunError, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import interop, to_onnx
from caffe2_validation.inputs import dims
from caffe2_validation.runtimes import find_runtime, real_caffe2
from caffe2_validation.runtimes.real_caffe2 import Caffe2

W = np.arange(4000, dtype=np.float32).reshape(10, 400)
X = np.ones((2, 400), np.float32)
INT8 = {"Y_scale": 0.5, "Y_zero_point": 3}


def model() -> Model:
    """Return a model with parameters of several types, an operator of the init net that reads one, and a random one."""
    fills = [
        operator("GivenTensorFill", [], ["w"], shape=[10, 400], values=W.ravel().tolist()),
        operator("GaussianFill", [], ["b"], shape=[10]),
        operator("GivenTensorInt64Fill", [], ["rows"], shape=[2], values=[1, 0]),
        operator("Int8GivenTensorFill", [], ["q"], shape=[2], values=b"ab", **INT8),
        operator("GivenTensorStringFill", [], ["s"], shape=[1], values=["text"]),
        operator("Negative", ["w"], ["v"]),
    ]
    ops = [
        operator("FC", ["x", "w", "b"], ["h"]),
        operator("Gather", ["h", "rows"], ["y"]),
        operator("Int8Relu", ["q"], ["z"], **INT8),
        operator("Copy", ["s"], ["t"]),
        operator("Copy", ["v"], ["u"]),
    ]
    inputs = ["x", "w", "b", "rows", "q", "s", "v"]
    net = NetDef(name="n", op=ops, external_input=inputs, external_output=["y", "z", "t", "u"])
    return Model.of(net, NetDef(name="init", op=fills))


def affine() -> onnx.ModelProto:
    net = NetDef(name="n", op=model().predict_net.op[:1], external_input=["x", "w", "b"], external_output=["h"])
    return to_onnx(net, model().init, inputs={"x": ("float32", ("N", 400))})


@pytest.mark.oracle
@pytest.mark.parametrize("stored", [True, False])
def test_real_caffe2_gets_large_parameters_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, stored: bool
) -> None:
    asked: list[str] = []
    real = Caffe2._ask

    def ask(self: Caffe2, header: dict[str, str], *rest: object) -> object:
        asked.append(header["do"])
        return real(self, header, *rest)  # type: ignore[arg-type] # as they were given

    save(model(), tmp_path)
    given = str(tmp_path) if stored else model()
    runtimes = ("caffe2", "workspace")
    monkeypatch.setattr(Caffe2, "_ask", ask)
    assert validate(given, {"x": X}, runtimes).agrees
    assert "fill" not in asked
    monkeypatch.setattr(real_caffe2, "_LARGEST_MESSAGE", 100)
    report = validate(given, {"x": X}, runtimes)
    assert asked.count("fill") == 5
    assert (report.agrees, report.failures) == (True, ()), report.to_json()
    assert {result.name for result in report.results} == {"y", "z", "t", "u"}


@pytest.mark.parametrize("runtime", ["onnxruntime-cpu", "onnx-reference"])
def test_large_onnx_models_reach_runtimes_through_a_file(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = affine()
    expected = find_runtime(runtime).load(exported).run({"x": X})["h"]
    before = exported.SerializeToString()
    monkeypatch.setattr(model_session, "_IN_MEMORY", 100)
    monkeypatch.setattr(model_session, "_serialized", lambda _: pytest.fail("the model is one message"))
    np.testing.assert_allclose(np.asarray(find_runtime(runtime).load(exported).run({"x": X})["h"]), expected)
    assert Predictor(exported).run({"x": X})["h"].shape == (2, 10)
    assert exported.SerializeToString() == before


def test_inputs_of_large_onnx_models_are_generated_without_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = dims.infer_shapes

    def infer(light: onnx.ModelProto, **options: bool) -> onnx.ModelProto:
        sizes.append(light.ByteSize())
        return real(light, **options)

    monkeypatch.setattr(dims, "infer_shapes", infer)
    monkeypatch.setattr(interop.files.onnx_files, "SINGLE_FILE_LIMIT", 100)
    report = validate(affine(), runtimes=("onnxruntime-cpu", "onnx-reference"))
    assert (report.agrees, report.failures) == (True, ())
    assert max(sizes) < W.nbytes


def test_a_disk_without_space_for_the_weights_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    exported = affine()
    monkeypatch.setattr(ir, "save", full)
    monkeypatch.setattr(model_session, "_IN_MEMORY", 100)
    monkeypatch.setattr(interop.files.onnx_files, "SINGLE_FILE_LIMIT", 100)
    with pytest.raises(RunError, match=r"16,040 bytes, cannot be written to a temporary file: No space left.*TMPDIR"):
        find_runtime("onnxruntime-cpu").load(exported)
