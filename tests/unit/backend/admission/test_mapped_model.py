"""Large models in one file: what is read of the file, and when.

Modules: mapped_model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.admission import load_ir, mapped_model
from caffe2_backend.admission.mapped_model import mapped_model as mapped
from caffe2_bridge import ConversionError, NetFormatError

W = np.arange(1200, dtype=np.float32).reshape(3, 400)
B = np.arange(400, dtype=np.float64)


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_model, "_LARGE", 1000)
    monkeypatch.setattr(mapped_model, "_LARGE_WEIGHT", 1024)


def model_of(*tensors: onnx.TensorProto) -> onnx.ModelProto:
    text = "g (float[N,3] x) => (float[N,400] y) { h = MatMul (x, w) c = Cast <to = 1> (b) y = Add (h, c) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.initializer.extend(tensors)
    return model


def weights() -> tuple[onnx.TensorProto, onnx.TensorProto]:
    return numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")


def written(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_weights_are_read_from_the_file_even_where_it_is_gone(tmp_path: Path) -> None:
    path = written(model_of(*weights()), tmp_path)
    found = mapped(path)
    assert found is not None
    assert list(found.weights) == ["w", "b"]
    assert found.proto.ByteSize() < 1000
    net = to_netdef(path)
    path.unlink()
    np.testing.assert_array_equal(net.init.parameters["w"].load(), W)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(Predictor(net).run({"x": x})["y"], x @ W + B)


def test_values_in_typed_fields_and_small_ones_are_parsed(tmp_path: Path) -> None:
    typed = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=W.shape, float_data=W.ravel())
    small = numpy_helper.from_array(B[:1], "b")
    path = written(model_of(typed, small), tmp_path)
    found = mapped(path)
    assert found is not None
    assert not found.weights
    np.testing.assert_array_equal(to_netdef(path).init.parameters["w"].load(), W)


def test_external_data_beside_them(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(B.tobytes())
    other = TensorProto(name="b", data_type=TensorProto.DOUBLE, dims=B.shape, data_location=TensorProto.EXTERNAL)
    other.external_data.add(key="location", value="b.bin")
    loaded = load_ir(written(model_of(weights()[0], other), tmp_path))
    for name, values in (("w", W), ("b", B)):
        tensor = loaded.graph.initializers[name].const_value
        assert tensor is not None
        np.testing.assert_array_equal(tensor.numpy(), values)


def test_a_tensor_without_a_location_is_not_the_files(tmp_path: Path) -> None:
    """Only those that were found in the file are read from there."""
    other = TensorProto(name="b", data_type=TensorProto.DOUBLE, dims=B.shape, data_location=TensorProto.EXTERNAL)
    for location in ("", "/"):
        if location:
            other.external_data.add(key="location", value=location)
        with pytest.raises(ConversionError, match="external data of"):
            load_ir(written(model_of(weights()[0], other), tmp_path))


def test_values_of_another_length_are_reported_as_ever(tmp_path: Path) -> None:
    w, b = weights()
    w.dims[0] = 4
    with pytest.raises(ConversionError, match="bytes"):
        to_netdef(written(model_of(w, b), tmp_path))


def test_two_of_one_name_are_reported_as_ever(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="duplicate-value"):
        to_netdef(written(model_of(*weights(), weights()[0]), tmp_path))


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for content in (b"\xff" * 2000, written(model_of(*weights()), tmp_path).read_bytes()[:-700]):
        path.write_bytes(content)
        with pytest.raises(NetFormatError, match="not an ONNX model"):
            to_netdef(path)
