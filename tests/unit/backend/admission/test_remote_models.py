"""ONNX models by URL: their external data come from their own folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.storage.web_server import Site, serving

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.admission import load_ir, load_proto
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.storage import locate
from caffe2_frontend import save_onnx

WEIGHT = np.arange(600, dtype=np.float32)


def model() -> onnx.ModelProto:
    value = [onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1, shape=onnx.TensorShapeProto()))]
    value[0].tensor_type.shape.dim.add(dim_value=len(WEIGHT))
    graph = onnx.GraphProto(name="g", initializer=[onnx.numpy_helper.from_array(WEIGHT, "w")])
    graph.input.add(name="x", type=value[0])
    graph.output.add(name="y", type=value[0])
    graph.node.add(op_type="Add", input=["x", "w"], output=["y"])
    return onnx.ModelProto(ir_version=9, graph=graph, opset_import=[onnx.OperatorSetIdProto(version=20)])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    save_onnx(model(), tmp_path / "m.onnx", external_data=16)
    files = {f"zoo/{path.name}": path.read_bytes() for path in tmp_path.glob("m.onnx*")}
    with serving(Site(files)) as found:
        yield found


def test_external_data(site: Site) -> None:
    url = f"{site.url}/zoo/m.onnx"
    assert np.array_equal(Predictor(url).run({"x": WEIGHT})["y"], 2 * WEIGHT)
    assert np.array_equal(onnx.numpy_helper.to_array(load_proto(url).graph.initializer[0]), WEIGHT)
    imported = to_netdef(url)
    assert imported.source == url
    loaded = load_ir(url).graph.initializers["w"].const_value
    site.files["zoo/m.onnx.data"] = bytes(WEIGHT.nbytes)
    assert np.array_equal(onnx.numpy_helper.to_array(load_proto(url).graph.initializer[0]), 0 * WEIGHT)
    assert loaded is not None
    assert np.array_equal(loaded.numpy(), WEIGHT)  # what was loaded keeps its values
    assert np.array_equal(imported.params["w"], WEIGHT)


@pytest.mark.parametrize(
    "location", ["../secret", "/etc/passwd", "a/../../secret", "file:///etc/passwd", "https://elsewhere/x", "none"]
)
def test_nothing_outside_of_the_folder_is_read(site: Site, location: str) -> None:
    changed = onnx.ModelProto.FromString(site.files["zoo/m.onnx"])
    for entry in changed.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = location
    site.files["zoo/m.onnx"] = changed.SerializeToString()
    site.files["secret"] = bytes(WEIGHT.nbytes)
    with pytest.raises(ConversionError, match="external data of initializer 'w'"):
        load_proto(f"{site.url}/zoo/m.onnx")
    assert {path for path, _ in site.requests} <= {"zoo/m.onnx", "zoo/none"}


def test_saves_leave_a_readable_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path))
    url = "memory://saves/m.onnx"
    for names in (["m.onnx", "m.onnx.data"], ["m.onnx", "m.onnx.2.data"], ["m.onnx", "m.onnx.3.data"]):
        assert [path.name for path in save_onnx(model(), url, external_data=16)] == names
        assert np.array_equal(Predictor(url).run({"x": WEIGHT})["y"], 2 * WEIGHT)
        assert [path.name for path in locate("memory://saves").iterdir()] == names
    assert isinstance(load_ir(url), ir.Model)
    assert [path.name for path in save_onnx(model(), url)] == ["m.onnx"]
    assert [path.name for path in locate("memory://saves").iterdir()] == ["m.onnx"]
