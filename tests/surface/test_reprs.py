"""Public objects at a Python prompt: models and results in a line or two, whatever they hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.nets import net, op

from caffe2_backend import Predictor, Session, ValidationReport, Workspace, prepare, validate
from caffe2_bridge import ConversionError, Model, save
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_fleet import Batch, ModelResult
from caffe2_frontend import analyze, check, to_onnx

COUNT = 300
X = {"x": ("float32", [2])}


def large() -> Model:
    names = [f"w{i}" for i in range(COUNT)]
    ops = [op("Add", f"x {name}", f"y{i}") for i, name in enumerate(names)]
    init = NetDef(op=[op("GivenTensorFill", "", name, shape=[2], values=[1.0, 2.0]) for name in names])
    outputs = " ".join(f"y{i}" for i in range(COUNT))
    return Model.of(net(*ops, inputs=" ".join(["x", *names]), outputs=outputs), init)


def test_models_and_what_runs_them(tmp_path: Path) -> None:
    model, listed = large(), "outputs=[y0, y1, y2, y3 and 296 more]"
    assert repr(model) == f"Model('n', inputs=[x], {listed}, operators=300, parameters=300)"
    assert repr(model.init) == "InitNet(parameters=[w0, w1, w2, w3 and 296 more], operators=0, findings=0)"
    assert repr(Predictor(model)) == f"Predictor(inputs=[x], {listed})"
    assert len(repr(model.params)) < 200
    save(model, tmp_path / "m")
    assert repr(Predictor(tmp_path / "m", "cpu")).endswith(f"/m', inputs=[x], {listed}, device='cpu')")
    exported = to_onnx(model, inputs=X)
    session = Session(exported.SerializeToString())
    assert repr(session) == f"Session(inputs=[x], {listed}, device='cpu')"
    assert repr(prepare(exported)) == f"Caffe2Rep(inputs=[x], {listed})"
    space = Workspace()
    space.feed("x", np.zeros(2))
    space.create_net(model.predict_net)
    assert repr(space) == "Workspace(blobs=[x], nets=[n])"


def test_results() -> None:
    assert repr(check(large(), inputs=X)) == "Report(covered=True, converted=300, unexamined=0, findings=0)"
    refused = check(net(op("Nope", "x", "y")), inputs=X)
    assert repr(refused) == "Report(covered=False, converted=0, refused=[Nope], unexamined=0, findings=1)"
    assert repr(analyze(large())) == "Export('n', operators=300, findings=1)"
    result = ModelResult("vision/a", "disagree", "0.1 at y", notes=["x" * 100] * 100, owner="me")
    assert repr(result) == "ModelResult('vision/a', 'disagree', reason='0.1 at y', owner='me')"
    batch = Batch([result, ModelResult("b", "agree"), ModelResult("c", "agree")], [])
    assert repr(batch) == "Batch('2 agree, 1 disagree', models=3, skipped=0)"
    with pytest.raises(ConversionError) as raised:
        to_onnx(net(op("Nope", "x", "y")), inputs=X)
    assert len(repr(raised.value)) < 200


def test_reports_of_validations() -> None:
    report = validate(large(), {"x": np.zeros(2, np.float32)}, ["workspace", "onnxruntime-cpu"])
    assert repr(report).startswith("ValidationReport('n', verdict='agree (")
    assert repr(report).endswith("sides=[workspace, onnxruntime-cpu], cases=1)")
    assert repr(ValidationReport("m", "", (), ())) == "ValidationReport('m', verdict='could not run', cases=0)"
