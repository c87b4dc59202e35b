"""Writing ONNX files: the same bytes' worth as protobuf's own, in pieces, all or nothing."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conformance.recording import operator
from onnx import numpy_helper
from support.cells import fills

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import NetFormatError, convert
from caffe2_frontend.interop.files import onnx_files
from caffe2_frontend.interop.files.onnx_files import model_proto, replacing, save_onnx

WEIGHTS = {"w": np.arange(3000, dtype=np.float32).reshape(50, 60), "b": np.linspace(0, 1, 50, dtype=np.float32)}


def model() -> ir.Model:
    ops = [operator("FC", ["x", "w", "b"], ["z"]), operator("Copy", ["z"], ["y"])]
    init = fills(WEIGHTS)
    init.op.append(operator("GivenTensorStringFill", [], ["s"], shape=[2], values=["a", "b\u00e9"]))
    net = NetDef(name="n", op=ops, external_input=["x", "s"], external_output=["y", "s"])
    return convert(net, init)


def test_a_streamed_file_is_the_protobuf(tmp_path: Path) -> None:
    converted = model()
    wanted = ir.to_proto(converted)
    assert save_onnx(converted, tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
    streamed = onnx.load(tmp_path / "m.onnx")  # noqa: TID251 - a file of the tests themselves
    ours, theirs = ({t.name: t for t in m.graph.initializer} for m in (streamed, wanted))
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name].data_type, ours[name].dims) == (tensor.data_type, tensor.dims)
        np.testing.assert_array_equal(numpy_helper.to_array(ours[name]), numpy_helper.to_array(tensor))
    for m in (streamed, wanted):
        del m.graph.initializer[:]
        del m.graph.value_info[:]
    assert streamed == wanted
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)


def test_the_model_can_be_written_again(tmp_path: Path) -> None:
    converted = model()
    for name in ("a", "b"):
        save_onnx(converted, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


DTYPES = ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 2), (), (0, 4)])
def test_every_element_type(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    tensor = ir.Tensor(array, name="w")
    w = ir.Value(name="w", type=ir.TensorType(tensor.dtype), shape=ir.Shape(shape), const_value=tensor)
    node = ir.Node("", "Identity", [w], num_outputs=1)
    (y,) = node.outputs
    y.name, y.type, y.shape = "y", w.type, w.shape
    graph = ir.Graph([], [y], nodes=[node], initializers=[w], opset_imports={"": 20}, name="g")
    save_onnx(ir.Model(graph, ir_version=9), tmp_path / "m.onnx")
    (result,) = Session(str(tmp_path / "m.onnx")).run({}).values()
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, array)


def test_above_the_limit_weights_lie_beside_the_model(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    whole = tmp_path / "whole.onnx"
    save_onnx(model(), whole)
    assert save_onnx(model(), target, external_data_above=5000) == [target, tmp_path / "m.onnx.data"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data", "whole.onnx"]
    assert target.stat().st_size < 5000 < (tmp_path / "m.onnx.data").stat().st_size
    onnx.checker.check_model(str(target), full_check=True)
    x = np.ones((2, 60), np.float32)
    a, b = (Session(str(path)).run({"x": x}) for path in (whole, target))
    np.testing.assert_array_equal(a["y"], b["y"])
    assert b["s"].tolist() == ["a", "b\u00e9"]


def test_tensors_above_a_size_of_choice_lie_beside_the_model(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    assert save_onnx(model(), target, external_data=1000) == [target, tmp_path / "m.onnx.data"]
    stored = onnx.load(target, load_external_data=False)  # noqa: TID251 - a file of the tests themselves
    places = {tensor.name: tensor.data_location for tensor in stored.graph.initializer}
    assert places["w"] == onnx.TensorProto.EXTERNAL  # 12,000 bytes
    assert places["b"] == onnx.TensorProto.DEFAULT  # 200 bytes
    assert save_onnx(model(), tmp_path / "n.onnx", external_data=100_000) == [tmp_path / "n.onnx"]


@pytest.mark.parametrize("link", [False, True])
def test_weights_of_the_replaced_model_go_with_it(tmp_path: Path, link: bool) -> None:
    target = tmp_path / "latest.onnx"
    if link:
        target.symlink_to("m.onnx")
    save_onnx(model(), target, external_data=100)
    save_onnx(model(), target)
    assert not [*tmp_path.glob("*.data")]


def test_weights_of_another_model_stay(tmp_path: Path) -> None:
    target, renamed = tmp_path / "m.onnx", tmp_path / "renamed.onnx"
    save_onnx(model(), target, external_data=100)
    target.rename(renamed)
    (tmp_path / "m.onnx.3.data").write_bytes(b"precious")
    for _ in range(3):
        assert (tmp_path / "m.onnx.data") not in save_onnx(model(), target, external_data=100)
    save_onnx(model(), target)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["m.onnx", "m.onnx.3.data", "m.onnx.data", "renamed.onnx"]
    assert Session(str(renamed)).run({"x": np.ones((2, 60), np.float32)})
    for number in range(2, 10):
        (tmp_path / f"m.onnx.{number}.data").touch()
    with pytest.raises(FileExistsError, match="all files for its weights are there already"):
        save_onnx(model(), target, external_data=100)


def test_a_model_too_large_for_one_file_is_split_whatever_the_size_of_choice(tmp_path: Path) -> None:
    written = save_onnx(model(), tmp_path / "m.onnx", external_data=100_000, external_data_above=5000)
    assert [path.name for path in written] == ["m.onnx", "m.onnx.data"]


@pytest.mark.parametrize("name", ["m..v2.onnx", "m.onnx.", "x" * 250 + ".onnx", "\u00e9" * 120 + ".onnx"])
def test_names_that_no_file_of_weights_may_have(tmp_path: Path, name: str) -> None:
    other = save_onnx(model(), tmp_path / f"other..{name[-10:]}", external_data=100)
    for _ in range(12):  # with each of the names of weights
        target, data = save_onnx(model(), tmp_path / name, external_data=100)
    assert sorted(tmp_path.iterdir()) == sorted([target, data, *other])
    onnx.checker.check_model(str(target))
    loaded = onnx.load(target)  # noqa: TID251 - a file of the tests themselves
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer}
    np.testing.assert_array_equal(found["w"], WEIGHTS["w"])
    assert Session(str(target)).run({"x": np.ones((2, 60), np.float32)})


@pytest.mark.skipif(sys.platform != "linux", reason="names are UTF-8 on this system")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    target, data = save_onnx(model(), tmp_path / os.fsdecode(b"\xff.onnx"), external_data=100)
    assert target.exists()
    assert data.name.isascii()


def test_a_link_in_the_folder_stays(tmp_path: Path) -> None:
    link = tmp_path / "latest.onnx"
    link.symlink_to("v3.onnx")
    for _ in range(2):
        written = save_onnx(model(), link, external_data=100)
        assert link.readlink() == Path("v3.onnx")
        assert written[0] == link
        assert Session(str(link)).run({"x": np.ones((2, 60), np.float32)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest.onnx", "v3.onnx", written[1].name]


def test_a_link_to_another_folder_is_replaced_so_that_the_weights_are_found(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    save_onnx(model(), tmp_path / "other" / "m.onnx")
    before = (tmp_path / "other" / "m.onnx").read_bytes()
    (tmp_path / "m.onnx").symlink_to("other/m.onnx")
    save_onnx(model(), tmp_path / "m.onnx", external_data=100)
    assert (tmp_path / "other" / "m.onnx").read_bytes() == before
    assert Session(str(tmp_path / "m.onnx")).run({"x": np.ones((2, 60), np.float32)})


class DiskFullError(OSError):
    pass


def failing(converted: ir.Model) -> ir.Model:
    """Return the model with one weight that cannot be read."""

    def load() -> ir.TensorProtocol:
        raise DiskFullError

    value = converted.graph.initializers["w"]
    assert value.const_value is not None
    value.const_value = ir.LazyTensor(load, value.const_value.dtype, value.const_value.shape, name="w")
    return converted


@pytest.mark.parametrize("limit", [1 << 30, 100])
def test_a_failure_leaves_what_was_there(tmp_path: Path, limit: int) -> None:
    old = {"m.onnx": b"old model", "m.onnx.data": b"old weights"}
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DiskFullError):
        save_onnx(failing(model()), tmp_path / "m.onnx", external_data_above=limit)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


@pytest.mark.parametrize("before", [{}, {"m.onnx.data": b"old weights"}])
def test_a_failure_of_the_last_step_brings_the_weights_back(tmp_path: Path, before: dict[str, bytes]) -> None:
    (tmp_path / "m.onnx").mkdir()
    (tmp_path / "m.onnx" / "inside").touch()
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(OSError, match=r"m\.onnx"):
        save_onnx(model(), tmp_path / "m.onnx", external_data_above=100)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.is_file()} == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for limit in (1 << 30, 100):
        with pytest.raises(FileNotFoundError) as raised:
            save_onnx(model(), tmp_path / "none" / "m.onnx", external_data_above=limit)
        assert raised.value.filename == str(tmp_path / "none" / "m.onnx")


def test_the_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    save_onnx(model(), tmp_path / "m.onnx")
    (tmp_path / "plain").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("m.onnx", "plain")]
    assert modes[0] == modes[1]


def test_nothing_is_seen_before_the_end(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with replacing(target) as file:
        file.write(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new"
    with pytest.raises(ZeroDivisionError), replacing(target) as file:
        file.write(bytes(1 // 0))
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_large_weights_of_a_protobuf_are_those_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "_LARGE", 100)
    converted = model()
    tensors = {name: value.const_value for name, value in converted.graph.initializers.items()}
    assert model_proto(converted) == ir.to_proto(converted)
    assert all(value.const_value is tensors[name] for name, value in converted.graph.initializers.items())


def test_what_is_not_an_onnx_model_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(NetFormatError, match="expected an ONNX model, got NetDef"):
        save_onnx(NetDef(), tmp_path / "m.onnx")  # type: ignore[arg-type] # what a caller may pass
    assert not list(tmp_path.iterdir())
