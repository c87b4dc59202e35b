"""``caffe2.python.onnx.frontend`` and ``.backend``; what needs Caffe2's own files runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from conformance.oracle import oracle_packages
from conformance.recording import operator
from numpy.testing import assert_allclose
from support.exports import run
from support.paths import ROOT

from caffe2_bridge import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat.hook.onnx_modules import backend_names, frontend_names

W = np.arange(12, dtype=np.float32).reshape(3, 4)
INIT = NetDef(
    op=[
        operator("GivenTensorFill", [], ["w"], shape=[3, 4], values=W.ravel().tolist()),
        operator("ConstantFill", [], ["b"], shape=[3], value=0.5),
        operator("ConstantFill", [], ["x"], shape=[1]),  # a placeholder, which value_info replaces
    ]
)
NET = NetDef(name="net", op=[operator("FC", ["x", "w", "b"], ["y"])], external_input=["x", "w", "b"])
NET.external_output.append("y")
INFO = {"x": (onnx.TensorProto.FLOAT, (2, 4))}
X = np.arange(8, dtype=np.float32).reshape(2, 4)

PROGRAM = """
import numpy as np, onnx, sys
from caffe2.python.onnx import backend
from caffe2.python.predictor import mobile_exporter
model = onnx.load(sys.argv[1])
rep = backend.prepare(model, device="CPU", no_check_UNSAFE=True)
x = np.arange(8, dtype=np.float32).reshape(2, 4)
(by_name,), (by_place,) = rep.run({"x": x}), backend.run_model(model, [x])
np.testing.assert_array_equal(by_name, by_place)
print(by_name.tolist(), rep.uninitialized, rep.workspace.HasBlob("w"))
init_net, predict_net = mobile_exporter.Export(rep.workspace, rep.predict_net, rep.predict_net.external_input)
print([op.type for op in predict_net.op], sorted(name for op in init_net.op for name in op.output))
"""


def test_a_net_as_onnx_and_back() -> None:
    model = frontend_names()["caffe2_net_to_onnx_model"](NET, INIT, INFO)
    assert [value.name for value in model.graph.input] == ["x"]
    assert_allclose(run(model, {"x": X})[0], X @ W.T + 0.5)
    assert frontend_names()["Caffe2Frontend"].caffe2_net_to_onnx_graph(NET, INIT, INFO) == model.graph
    init_net, predict_net = backend_names()["Caffe2Backend"].onnx_graph_to_caffe2_net(model)
    assert (init_net.name, predict_net.name) == ("net_init", "net_predict")
    assert [op.type for op in predict_net.op] == ["FC"]
    assert sorted(name for op in init_net.op for name in op.output) == ["b", "w"]


def test_what_an_init_net_makes() -> None:
    tensors = frontend_names()["caffe2_init_net_to_initializer"](INIT)
    assert [tensor.name for tensor in tensors] == ["b", "w", "x"]
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensors[1]), W)


def test_operators_that_caffe2_lacks() -> None:
    text = '<ir_version: 8, opset_import: ["": 17, "mine": 1]> g (float[2] x) => (float[2] y) {y = mine.Own(x)}'
    with pytest.raises(ConversionError, match="Own"):
        backend_names()["onnx_graph_to_caffe2_net"](onnx.parser.parse_model(text))


@pytest.mark.oracle
def test_a_program_that_prepares_a_model_for_mobile_devices(tmp_path: Path) -> None:
    model = frontend_names()["caffe2_net_to_onnx_model"](NET, INIT, INFO)
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "program.py").write_text(PROGRAM)
    start = [sys.executable, "-c", "from caffe2_cli.commands import main; main()", "python", "--caffe2"]
    path = ":".join(str(ROOT / name) for name in ("bridge", "frontend", "backend"))
    result = subprocess.run(  # noqa: S603 - ours
        [*start, str(oracle_packages()), str(tmp_path / "program.py"), str(tmp_path / "model.onnx")],
        env={"PYTHONPATH": path, "CAFFE2_BRIDGE_CACHE": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout.splitlines() == [
        f"{(X @ W.T + 0.5).tolist()} ['x'] True",
        "['FC'] ['b', 'w', 'x']",
    ], result.stderr
