"""Load operators of init nets: which databases are opened, and which blobs get which names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from support.nets import op

import caffe2_bridge as c2
from caffe2_bridge import NetFormatError
from caffe2_bridge.diagnostics import Severity
from caffe2_bridge.files.blobs.record_writer import Record, tensor_records
from caffe2_bridge.files.databases import lmdb_file, minidb
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

W = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.array([7, 8], np.int32)
STORED = {"old/w": W, "old/b": B}


def records(**arrays: np.ndarray[Any, Any]) -> list[Record]:
    return [
        record
        for name, array in arrays.items()
        for record in tensor_records(Parameter(name, array.dtype, array.shape, array.copy))
    ]


def write_database(path: Path, **arrays: np.ndarray[Any, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(minidb.record(key, value) for key, value in records(**arrays)))


def init_of(folder: Path, *ops: OperatorDef, databases: Path | None = None) -> c2.InitNet:
    path = folder / "init_net.pb"
    path.write_bytes(NetDef(name="i", op=ops).SerializeToString())
    return c2.load_init_net(path, databases)


def load(outputs: str, **args: Any) -> OperatorDef:
    return op("Load", "", outputs, db_type="minidb", **({} if "dbs" in args else {"db": "weights.minidb"}), **args)


# The names that the blobs of ``STORED`` get, w first; empty for a blob that is not loaded.
RENAMES: list[tuple[str, dict[str, Any], str, str]] = [
    ("old/w old/b", {}, "old/w", "old/b"),
    ("w b", {"strip_prefix": "old/"}, "w", "b"),
    ("w", {"strip_prefix": "ld/"}, "w", ""),
    ("x/old/w", {"add_prefix": "x/"}, "x/old/w", ""),
    ("x/w", {"add_prefix": "x/", "strip_prefix": "old/"}, "x/w", ""),
    ("a c", {"source_blob_names": ["old/w", "old/b"]}, "a", "c"),
    ("a", {"source_blob_names": ["x/old/w"], "add_prefix": "x/"}, "a", ""),
    ("", {"load_all": 1}, "old/w", "old/b"),
    ("n_w", {"load_all": 1, "strip_prefix": "old/", "add_prefix": "n_"}, "n_w", "n_b"),
    ("old/w zz", {"allow_incomplete": 1}, "old/w", ""),
]
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("old/w zz", {}, "lack 1 of 2 blobs to load: zz"),
    ("zz", {"load_all": 1, "allow_incomplete": 1}, "lack 1 of 1 blobs"),
    ("a", {"source_blob_names": ["w"], "strip_prefix": "old/"}, "excludes strip_prefix"),
    ("a", {"source_blob_names": ["old/w"], "load_all": 1}, "load_all"),
    ("a b", {"source_blob_names": ["old/w"]}, "a name for each output"),
    ("a b", {"source_blob_names": ["old/w", "old/w"]}, "loaded once"),
]


@pytest.mark.parametrize(("outputs", "args", "w", "b"), RENAMES)
def test_names(tmp_path: Path, outputs: str, args: dict[str, Any], w: str, b: str) -> None:
    write_database(tmp_path / "weights.minidb", **STORED)
    init = init_of(tmp_path, load(outputs, **args))
    assert init.rest == ()
    assert {name: p.load().tolist() for name, p in init.parameters.items()} == {
        name: value.tolist() for name, value in ((w, W), (b, B)) if name
    }
    assert all(p.name == name for name, p in init.parameters.items())


@pytest.mark.oracle
@pytest.mark.parametrize(("outputs", "args", "w", "b"), RENAMES)
def test_names_in_real_caffe2(tmp_path: Path, outputs: str, args: dict[str, Any], w: str, b: str) -> None:
    write_database(tmp_path / "weights.minidb", **STORED)
    args = {**args, "absolute_path": 1}
    proto = op("Load", "", outputs, db_type="minidb", db=str(tmp_path / "weights.minidb"), **args)
    copies = [op("Copy", name, f"copy_{i}") for i, name in enumerate((w, b)) if name]
    (result,) = run_oracle([OracleRun(NetDef(op=copies), init_net=NetDef(op=[proto]))])
    assert not result.error
    for copy, value in zip(copies, [v for name, v in ((w, W), (b, B)) if name], strict=True):
        np.testing.assert_array_equal(result.outputs[copy.output[0]], value)


@pytest.mark.parametrize(("outputs", "args", "message"), REFUSED)
def test_refused(tmp_path: Path, outputs: str, args: dict[str, Any], message: str) -> None:
    write_database(tmp_path / "weights.minidb", **STORED)
    with pytest.raises(NetFormatError, match=r"i\[0\] Load: .*" + message):
        init_of(tmp_path, load(outputs, **args))


@pytest.mark.oracle
@pytest.mark.parametrize(("outputs", "args", "message"), REFUSED)
def test_refused_by_real_caffe2(tmp_path: Path, outputs: str, args: dict[str, Any], message: str) -> None:
    write_database(tmp_path / "weights.minidb", **STORED)
    path = str(tmp_path / "weights.minidb")
    proto = op("Load", "", outputs, db_type="minidb", db=path, absolute_path=1, **args)
    (result,) = run_oracle([OracleRun(NetDef(op=[proto]), outputs=[])])
    assert result.error, message


def test_several_databases(tmp_path: Path) -> None:
    write_database(tmp_path / "1.minidb", w=W)
    write_database(tmp_path / "2.minidb", b=B)
    init = init_of(tmp_path, load("w b", dbs=["1.minidb", "2.minidb"]))
    assert list(init.parameters) == ["w", "b"]
    write_database(tmp_path / "2.minidb", b=B, w=W)
    with pytest.raises(NetFormatError, match="'w' is in several"):
        init_of(tmp_path, load("w b", dbs=["1.minidb", "2.minidb"]))


def test_the_path_of_another_machine(tmp_path: Path) -> None:
    write_database(tmp_path / "data" / "weights.minidb", w=W)
    for stated in ("/home/me/data/weights.minidb", r"C:\data\weights.minidb", "../../x/../data/weights.minidb"):
        init = init_of(tmp_path, op("Load", "", "w", db=stated, db_type="minidb", absolute_path=1))
        np.testing.assert_array_equal(init.parameters["w"].load(), W)
        (note,) = init.findings
        assert (note.code, note.severity) == ("database-read", Severity.NOTE)


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    write_database(tmp_path / "secret.minidb", w=W)
    (folder / "link.minidb").symlink_to(tmp_path / "secret.minidb")
    (folder / "up").symlink_to(tmp_path)
    for stated in ("../secret.minidb", str(tmp_path / "secret.minidb"), "link.minidb", "up/secret.minidb", "..", "/"):
        init = init_of(folder, op("Load", "", "w", db=stated, db_type="minidb"))
        assert [view.type for view in init.rest] == ["Load"]
        assert init.parameters == {}


def test_a_folder_for_databases(tmp_path: Path) -> None:
    write_database(tmp_path / "elsewhere" / "weights.minidb", w=W)
    (tmp_path / "model").mkdir()
    assert init_of(tmp_path / "model", load("w")).rest
    assert not init_of(tmp_path / "model", load("w"), databases=tmp_path / "elsewhere").rest


def test_a_reader_of_the_init_net(tmp_path: Path) -> None:
    write_database(tmp_path / "weights.minidb", w=W)
    create = op("CreateDB", "", "reader", db="weights.minidb", db_type="minidb")
    init = init_of(tmp_path, create, op("Load", "reader", "w"))
    assert (list(init.parameters), init.rest) == (["w"], ())


def test_a_fill_before_and_after_the_load(tmp_path: Path) -> None:
    write_database(tmp_path / "weights.minidb", w=W, b=B)
    fill = op("ConstantFill", "", "w", shape=[1], value=9.0)
    assert init_of(tmp_path, fill, load("w")).parameters["w"].shape == (2, 3)
    after = init_of(tmp_path, load("w"), fill)
    assert [view.type for view in after.rest] == ["ConstantFill"]
    undeclared = init_of(tmp_path, load("", load_all=1), fill)
    assert undeclared.parameters["w"].shape == (1,)
    used = init_of(tmp_path, fill, op("Exp", "w", "e"), load("w"))
    assert [view.type for view in used.rest] == ["Exp", "Load"]


def test_the_init_net_that_real_caffe2_gets_has_the_values(tmp_path: Path) -> None:
    write_database(tmp_path / "weights.minidb", w=W)
    init = init_of(tmp_path, load("w"), op("Exp", "w", "e"))
    assert [each.type for each in init.net.op] == ["GivenTensorFill", "Exp"]


def test_devices(tmp_path: Path) -> None:
    write_database(tmp_path / "weights.minidb", w=W)
    on_gpu = load("w")
    on_gpu.device_option.device_type = 1
    device = init_of(tmp_path, on_gpu).parameters["w"].device
    assert device is not None
    assert device.device_type == 1
    kept = load("w", keep_device=1)
    kept.device_option.device_type = 1
    assert init_of(tmp_path, kept).parameters["w"].device is None


@pytest.mark.skipif(find_spec("lmdb") is None, reason="lmdb is an optional package")
def test_lmdb(tmp_path: Path) -> None:
    folder = tmp_path / "weights.lmdb"
    folder.mkdir()
    lmdb_file.write(folder / lmdb_file.DATA, records(w=W))
    init = init_of(tmp_path, op("Load", "", "w", db="weights.lmdb", db_type="lmdb"))
    np.testing.assert_array_equal(init.parameters["w"].load(), W)


def test_a_model_whose_init_net_loads(tmp_path: Path) -> None:
    write_database(tmp_path / "weights.minidb", w=W, b=B.astype(np.float32))
    (tmp_path / "init_net.pb").write_bytes(NetDef(op=[load("w b")]).SerializeToString())
    predict = NetDef(
        name="p", op=[op("FC", "x w b", "y")], external_input=["x", "w", "b"], external_output=["y"]
    )  # fmt: skip
    (tmp_path / "predict_net.pb").write_bytes(predict.SerializeToString())
    model = c2.load(tmp_path)
    assert model.inputs == ("x",)
    assert sorted(model.params) == ["b", "w"]


def test_a_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "weights.minidb").write_bytes(NetDef(op=[op("Relu", "x", "y")]).SerializeToString())
    with pytest.raises(NetFormatError, match="must be a database"):
        init_of(tmp_path, load("w"))


def test_a_database_of_tensors_is_an_init_net(tmp_path: Path) -> None:
    path = tmp_path / "net.pb"
    net = NetDef(op=[op("FC", "x old/w old/b", "y")], external_input=["x", "old/w", "old/b"], external_output=["y"])
    path.write_bytes(net.SerializeToString())
    write_database(tmp_path / "weights.minidb", **STORED)
    for model in (c2.load(path), c2.load(path, tmp_path / "weights.minidb")):
        assert {name: array.tolist() for name, array in model.params.items()} == {
            "old/w": W.tolist(), "old/b": B.tolist(),
        }  # fmt: skip
