"""Real S3 requests, to moto's server in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.paths import ROOT
from support.storage.cutting_proxy import Cuts, cutting_proxy
from support.storage.s3_server import SETTINGS, s3_server

import caffe2_bridge as c2
from caffe2_bridge.model import Model
from caffe2_bridge.storage import RemotePath, StorageError, locate, retries, walk
from caffe2_bridge.storage.stores.fsspec_store import FsspecStore

pytest.importorskip("s3fs")
pytest.importorskip("moto")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with s3_server("zoo") as found:
        yield found


@pytest.fixture
def folder(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> RemotePath:
    for name, value in (SETTINGS | {"AWS_ENDPOINT_URL": address}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.0)
    fresh()
    return RemotePath(f"s3://zoo/{request.node.name}")


def test_models_are_equal_to_local_ones(folder: RemotePath, tmp_path: Path) -> None:
    model = c2.load(ROOT / "models" / "char_rnn")
    for layout in ("pb", "minidb"):
        url = f"{folder}/{layout}"
        c2.save(model, url, layout)
        c2.save(model, tmp_path / layout, layout)
        found = c2.load(url)
        assert found.source.startswith(url)
        assert found.predict_net == c2.load(tmp_path / layout).predict_net
        assert found.params.keys() == model.params.keys()
        assert all(np.array_equal(found.params[name], model.params[name]) for name in model.params)
    written = {file.name: file.read_bytes() for file in (folder / "pb").iterdir()}
    assert written == {file.name: file.read_bytes() for file in (tmp_path / "pb").iterdir()}


def test_a_save_that_fails_leaves_the_model(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    target = folder / "model"
    for name in ("init_net.pb", "predict_net.pb"):
        (target / name).write_bytes(b"old")
    write = FsspecStore._write
    calls: list[str] = []

    def failing(store: FsspecStore, file: Path, url: object) -> None:
        calls.append(str(url))
        if len(calls) > 1:
            raise retries.TransientError("the connection was cut", str(url))
        write(store, file, url)  # type: ignore[arg-type] # a Url

    monkeypatch.setattr(FsspecStore, "_write", failing)
    with pytest.raises(StorageError, match=r"the connection was cut \(tried 2 times\)"):
        c2.save(c2.load(ROOT / "models" / "char_rnn"), str(target))
    old = {"init_net.pb": b"old", "predict_net.pb": b"old"}
    assert {file.name: file.read_bytes() for file in target.iterdir()} == old


def test_a_save_that_is_killed_leaves_the_model(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    model = c2.load(ROOT / "models" / "char_rnn")
    c2.save(model, str(folder))
    before = {file.name: file.version() for file in folder.iterdir()}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("copy", "remove"):  # what follows the uploads, and what cleans up
        monkeypatch.setattr(FsspecStore, name, killed)
    with pytest.raises(KeyboardInterrupt):
        c2.save(Model.of(model.predict_net), str(folder))
    left = {file.name: file.version() for file in folder.iterdir()}
    assert len(left) == 4
    assert left.items() >= before.items()
    assert c2.load(str(folder)).params.keys() == model.params.keys()


def test_large_objects_go_in_parts(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    calls: list[str] = []
    call = s3fs.S3FileSystem._call_s3

    async def counted(self: object, method: str, *args: object, **kwargs: object) -> object:
        calls.append(method)
        return await call(self, method, *args, **kwargs)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    monkeypatch.setattr(s3fs.core, "calculate_chunksize", lambda *_, **__: 5 << 20)
    content = os.urandom(1_000_000) * 12  # above twice the size of a part
    (folder / "big").write_bytes(content)
    assert calls.count("upload_part") > 1
    assert "complete_multipart_upload" in calls
    assert (folder / "big").read_bytes() == content
    calls.clear()
    assert (folder / "big").read_bytes() == content
    assert "get_object" not in calls


@pytest.fixture
def cuts(folder: RemotePath, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cuts]:
    """A connection to the server that can be cut."""
    del folder
    cuts = Cuts()
    with cutting_proxy(address, cuts) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy)
        yield cuts


def fresh() -> None:
    """Make s3fs connect anew."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


def without_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make s3fs and botocore try once."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    fresh()


def test_a_download_that_is_cut_is_repeated(folder: RemotePath, cuts: Cuts) -> None:
    content = os.urandom(2_000_000)
    (folder / "x").write_bytes(content)
    cuts.down += [1_000_000, 700_000, 300_000]
    fresh()
    assert (folder / "x").read_bytes() == content
    assert cuts.count


def test_an_upload_that_is_cut_is_repeated_or_reported(
    folder: RemotePath, cuts: Cuts, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder / "x"
    target.write_bytes(b"old")
    content = os.urandom(2_000_000)
    cuts.up += [1_000_000]
    fresh()
    target.write_bytes(content)
    assert cuts.count == 1
    assert target.read_bytes() == content
    cuts.up += [500_000] * 100
    without_retries(monkeypatch)
    with pytest.raises(StorageError, match=r"s3://zoo/.*/x: the request failed: .*\(tried 2 times\)"):
        target.write_bytes(os.urandom(2_000_000))
    cuts.up.clear()
    fresh()
    assert target.read_bytes() == content
    assert [file.name for file in folder.iterdir()] == ["x"]


def test_folders(folder: RemotePath) -> None:
    for name in ("a/x", "a/b/y", "z"):
        (folder / name).write_text(name)
    assert folder.is_dir()
    assert not folder.is_file()
    assert [(str(place), [file.name for file in files]) for place, files in walk(folder)] == [
        (str(folder), ["z"]),
        (f"{folder}/a", ["x"]),
        (f"{folder}/a/b", ["y"]),
    ]
    (folder / "z").unlink()
    assert not (folder / "z").exists()


def test_a_bucket_that_does_not_exist(folder: RemotePath) -> None:
    del folder
    assert not locate("s3://nothing/x").exists()
    with pytest.raises(StorageError, match="s3://nothing/x"):
        locate("s3://nothing/x").write_text("x")


def test_no_server(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    without_retries(monkeypatch)
    with pytest.raises(StorageError, match=r"the request failed: .*tried 2 times"):
        folder.exists()
    fresh()
