"""Models and weights at paths that are not UTF-8."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_backend import Predictor
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import convert, save_onnx

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 on this system")


@pytest.mark.parametrize("external", [None, 100])
def test_a_model_and_its_weights(tmp_path: Path, external: int | None) -> None:
    folder = tmp_path / os.fsdecode(b"f\xff")
    folder.mkdir()
    net = NetDef(op=[operator("Add", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["y"])
    weights = np.arange(100, dtype=np.float32)
    path = folder / os.fsdecode(b"m\xfe.onnx")
    save_onnx(convert(net, fills({"w": weights})), path, external_data=external)
    x = {"x": np.ones(100, np.float32)}
    np.testing.assert_array_equal(Session(str(path)).run(x)["y"], weights + 1)
    np.testing.assert_array_equal(Predictor(path).run(x)["y"], weights + 1)
