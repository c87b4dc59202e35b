"""LMDB and LevelDB databases: what is theirs alone. That every type comes back, test_saver says of all formats."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caffe2_bridge as c2
from caffe2_bridge.files.databases import leveldb_file, lmdb_file, minidb
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.wire import Span

needs_plyvel = pytest.mark.skipif(
    find_spec("plyvel") is None, reason="plyvel has no wheels for every Python, and is not installed"
)
DATABASES = ["lmdb", pytest.param("leveldb", marks=needs_plyvel)]


def model_of(**arrays: np.ndarray[Any, Any]) -> c2.Model:
    parameters = [Parameter(name, array.dtype, array.shape, array.copy) for name, array in arrays.items()]
    predict = NetDef(name="predict", external_input=["x", *arrays], external_output=["y"])
    predict.op.add(type="Sum", input=["x", *arrays], output=["y"])
    init = InitNet({p.name: p for p in parameters}, serialized=lambda: fill_net(parameters, ()))
    return c2.Model.of(predict, init)


def vector(value: float) -> np.ndarray[Any, Any]:
    return np.full(3, value, np.float32)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("layout", DATABASES)
def test_records_are_those_of_minidb(tmp_path: Path, layout: str) -> None:
    model = model_of(b=vector(1), a=np.arange(2_000_005, dtype=np.float32), s=np.array([b"t"], object))
    c2.save(model, tmp_path / "mini", "minidb")
    c2.save(model, tmp_path / "other", layout)
    read = {"lmdb": lmdb_file.blobs, "leveldb": leveldb_file.blobs}[layout]
    mini = minidb.blobs(Span.of((tmp_path / "mini").read_bytes()))
    found = read(tmp_path / "other")
    assert list(found) == sorted(mini) == ["!!META_NET_DEF", "a", "b", "s"]
    for name, blob in mini.items():
        assert [f().tobytes() for f in found[name].chunks] == [f().tobytes() for f in blob.chunks]


@pytest.mark.parametrize("layout", DATABASES)
def test_a_database_can_be_replaced_while_its_model_is_in_use(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "m"
    c2.save(model_of(w=vector(1)), path, layout)
    old, twin = c2.load(path), c2.load(path)  # twice at the same time
    c2.save(old, path, layout)  # over itself
    np.testing.assert_array_equal(c2.load(path).params["w"], vector(1))
    c2.save(model_of(w=vector(2)), path, layout)
    np.testing.assert_array_equal(c2.load(path).params["w"], vector(2))
    for model in (old, twin):
        np.testing.assert_array_equal(model.params["w"], vector(1))


@pytest.mark.parametrize("layout", DATABASES)
def test_reading_changes_nothing(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "m"
    c2.save(model_of(w=vector(1)), path, layout)
    before = contents(tmp_path)
    c2.load(path).params["w"].sum()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("layout", "package"), [("lmdb", "lmdb"), ("leveldb", "plyvel")])
def test_a_missing_package_is_named(tmp_path: Path, layout: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(c2.BridgeError, match=rf"require the package {package}: pip install 'caffe2-bridge\[db\]'"):
        c2.save(model_of(w=vector(1)), tmp_path / "m", layout)
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize("layout", ["minidb", *DATABASES])
def test_a_save_holds_one_parameter_at_a_time(tmp_path: Path, layout: str) -> None:
    elements = 500_000
    model = model_of()
    many = {
        f"w{i}": Parameter(f"w{i}", np.dtype(np.float32), (elements,), lambda i=i: np.full(elements, i, np.float32))
        for i in range(20)
    }
    model = c2.Model.of(model.predict_net, InitNet(many))
    tracemalloc.start()
    try:
        c2.save(model, tmp_path / "m", layout)
        back = c2.load(tmp_path / "m")
        assert all(float(back.params[name][-1]) == int(name[1:]) for name in many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * 4 * elements, "more than a few copies of one of twenty parameters"


def test_an_lmdb_file_may_have_any_name(tmp_path: Path) -> None:
    c2.save(model_of(w=vector(1)), tmp_path / "m", "lmdb")
    assert [file.name for file in (tmp_path / "m").iterdir()] == ["data.mdb"]
    (tmp_path / "m" / "data.mdb").rename(tmp_path / "weights.bin")
    np.testing.assert_array_equal(c2.load(tmp_path / "weights.bin").params["w"], vector(1))


def test_an_lmdb_database_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_file, "_FIRST_MAP", 1 << 15)
    values = np.arange(300_000, dtype=np.float32)
    c2.save(model_of(w=values, v=values[::-1].copy()), tmp_path, "lmdb")
    np.testing.assert_array_equal(c2.load(tmp_path).params["v"], values[::-1])


def test_what_lmdb_cannot_hold_is_said(tmp_path: Path) -> None:
    with pytest.raises(c2.BridgeError, match=r"name 'n{600}#%0' has 603 bytes, but LMDB allows at most 511"):
        c2.save(model_of(**{"n" * 600: vector(1)}), tmp_path / "m", "lmdb")
    assert list(tmp_path.rglob("*.mdb")) == []


def test_a_damaged_lmdb_database_is_an_error_not_a_crash(tmp_path: Path) -> None:
    c2.save(model_of(w=np.arange(100_000, dtype=np.float32)), tmp_path / "m", "lmdb")
    whole = (tmp_path / "m" / "data.mdb").read_bytes()
    wrong = bytearray(whole)
    for page in range(8192, len(whole), 4096):  # all but the two that say where the root is
        wrong[page + 16 : page + 20] = b"\xff" * 4
    for name, data in {
        "cut": whole[: len(whole) // 2],
        "head": whole[:5000],
        "noise": whole[:32] + b"\x5a" * 20_000,
        "pages": bytes(wrong),
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(c2.NetFormatError, match="LMDB database is truncated or damaged") as caught:
            c2.load(tmp_path / name)
        assert caught.value.source == str(tmp_path / name)


@needs_plyvel
def test_a_leveldb_database_that_another_process_holds_is_read(tmp_path: Path) -> None:
    c2.save(model_of(w=vector(1)), tmp_path / "m", "leveldb")
    holder = (
        "import plyvel, sys\n"
        "database = plyvel.DB(sys.argv[1])\n"
        "print('open', flush=True)\n"
        "sys.stdin.read()\n"
        "database.close()\n"
    )
    command = [sys.executable, "-c", holder, str(tmp_path / "m")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own script
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        np.testing.assert_array_equal(c2.load(tmp_path / "m").params["w"], vector(1))
        process.communicate("")


@needs_plyvel
def test_a_leveldb_database_as_others_write_it(tmp_path: Path) -> None:
    """Read it compressed, in many tables, with older versions of values, and with a log that is in no table yet."""
    import plyvel

    values = np.zeros(300_000, np.float32)
    c2.save(model_of(w=values, v=values + 1), tmp_path / "mini", "minidb")
    database = plyvel.DB(str(tmp_path / "m"), create_if_missing=True, write_buffer_size=1 << 16)
    records = list(minidb.records(Span.of((tmp_path / "mini").read_bytes())))
    for key, _ in records:
        database.put(key.encode(), b"old" * 30_000)
    for key, value in reversed(records):
        database.put(key.encode(), value.tobytes())
    database.close()
    assert len(list((tmp_path / "m").glob("*.ldb"))) > 1
    np.testing.assert_array_equal(c2.load(tmp_path / "m").params["v"], values + 1)


@needs_plyvel
def test_a_damaged_leveldb_database(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("MANIFEST-000001\n")
    (tmp_path / "MANIFEST-000001").write_bytes(b"x")
    with pytest.raises(c2.NetFormatError, match=r"the LevelDB database cannot be read: Corruption") as caught:
        c2.load(tmp_path)
    assert caught.value.source == str(tmp_path)


@needs_plyvel
def test_a_damaged_block_of_a_leveldb_database_is_found(tmp_path: Path) -> None:
    """LevelDB itself skips records after a damaged one, or returns other bytes, unless it compares checksums."""
    import plyvel

    database = plyvel.DB(str(tmp_path / "m"), create_if_missing=True, compression=None, write_buffer_size=1 << 16)
    for index in range(2000):
        database.put(b"k%04d" % index, bytes([index % 256]) * 100)
    database.close()
    table = min((tmp_path / "m").glob("*.ldb"))
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    reason = "the LevelDB database cannot be read: Corruption: block checksum mismatch"
    with pytest.raises(c2.NetFormatError, match=reason) as caught:
        leveldb_file.blobs(tmp_path / "m")
    assert caught.value.source == str(tmp_path / "m")


@needs_plyvel
def test_a_damaged_log_of_a_leveldb_database_is_found(tmp_path: Path) -> None:
    """A small database is a log, of which LevelDB itself drops the records from a damaged one on."""
    folder = tmp_path / "m"
    c2.save(model_of(w=vector(1), v=np.arange(10_000, dtype=np.float32)), folder, "leveldb")
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    log.write_bytes(data[:-2])  # of a writer that was killed
    assert sorted(leveldb_file.blobs(folder)) == ["!!META_NET_DEF", "v"]
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(c2.NetFormatError, match="the LevelDB database cannot be read: Corruption"):
        c2.load(folder)
    with pytest.raises(c2.BridgeError, match="the LevelDB database cannot be written: Corruption"):
        leveldb_file.put_all(folder, [(b"a", b"b")])
    assert log.read_bytes() == data


@needs_plyvel
def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(c2.BridgeError, match="files that are not part of a LevelDB database, so it is not replaced"):
        c2.save(model_of(w=vector(1)), tmp_path, "leveldb")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(c2.BridgeError, match="has files that are not part of a LevelDB database"):
        c2.save(model_of(w=vector(1)), tmp_path / "file", "leveldb")
    assert contents(tmp_path) == {"notes.txt": b"mine", "file": b"mine"}


@needs_plyvel
def test_a_leveldb_database_keeps_the_permissions_of_what_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.mkdir(mode=0o750)
    path.chmod(0o750)
    c2.save(model_of(w=vector(1)), path, "leveldb")
    assert path.stat().st_mode & 0o777 == 0o750
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
