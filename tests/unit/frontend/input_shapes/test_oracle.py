"""Nets that Caffe2's own tools export with placeholders for inputs convert at the first try, and agree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conformance.oracle import find_oracle
from support.paths import SUPPORT

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import load
from caffe2_frontend import to_onnx


@pytest.mark.oracle
def test_exports_of_caffe2s_own_tools(tmp_path: Path) -> None:
    python = find_oracle()
    assert python is not None
    worker = SUPPORT / "caffe2_exporters.py"
    subprocess.run([python, worker, tmp_path], check=True, capture_output=True)  # noqa: S603 - the python that the user installed Caffe2 in
    with np.load(tmp_path / "expected.npz") as expected:
        x, y = expected["x"], expected["y"]
    for name in ("mobile", "translated"):
        loaded = load(tmp_path / f"{name}predict_net.pb")
        assert loaded.inputs == ("data",)
        model = to_onnx(loaded.predict_net, loaded.init_net)
        (data,) = model.graph.input
        assert [dim.dim_value for dim in data.type.tensor_type.shape.dim] == [0, 3, 0, 0]
        found = Session(model.SerializeToString()).run({"data": x})
        np.testing.assert_allclose(found["y"], y, rtol=1e-4, atol=1e-5)
