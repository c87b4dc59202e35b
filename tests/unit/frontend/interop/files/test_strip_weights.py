"""Models as ONNX's C++ code sees them: without large weights, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import convert
from caffe2_frontend.interop.files.strip_weights import drop_generated_dim_names, with_weights, without_weights


def model() -> ir.Model:
    weights = {"w": np.ones((40, 30), np.float32), "b": np.zeros(40, np.float32)}
    ops = [operator("FC", ["x", "w", "b"], ["y"])]
    return convert(NetDef(op=ops, external_input=["x"], external_output=["y"]), fills(weights))


def test_large_weights_become_inputs_and_the_model_stays_as_it_was() -> None:
    source = model()
    before = ir.to_proto(source)
    proto = without_weights(source)
    assert [v.name for v in proto.graph.input] == ["x", "w"]
    assert [t.name for t in proto.graph.initializer] == ["b"]
    assert [d.dim_value for d in proto.graph.input[1].type.tensor_type.shape.dim] == [40, 30]
    assert proto.ByteSize() < 4000
    after = ir.to_proto(source)
    assert {t.name for t in after.graph.initializer} == {"w", "b"}
    assert list(after.graph.input) == list(before.graph.input)


def test_there_and_back() -> None:
    source = model()
    result = with_weights(without_weights(source), source)
    assert [value.name for value in result.graph.inputs] == ["x"]
    assert result.graph.initializers.keys() == {"w", "b"}
    assert result.graph.initializers["w"].const_value is source.graph.initializers["w"].const_value


def test_made_up_names_go() -> None:
    shape = drop_generated_dim_names(ir.Shape(["unk__3", "T", 4, None]))
    assert shape == ir.Shape([None, "T", 4, None])
    assert drop_generated_dim_names(None) is None


def test_small_external_tensors_are_read_from_their_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, value in ((own, 1), (other, 2)):
        folder.mkdir()
        (folder / "b.bin").write_bytes(np.full(40, value, np.float32).tobytes())
    monkeypatch.chdir(other)
    source = model()
    tensor = ir.ExternalTensor("b.bin", 0, 160, ir.DataType.FLOAT, shape=ir.Shape([40]), name="b", base_dir=own)
    source.graph.initializers["b"].const_value = tensor
    found = with_weights(without_weights(source), source).graph.initializers["b"].const_value
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), np.ones(40, np.float32))
