"""Files in fsspec's memory, which stands for every object store."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.storage import RemotePath, StorageError, StorageNotFoundError, locate, published, walk

pytest.importorskip("fsspec")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[RemotePath]:
    import fsspec

    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    yield RemotePath(f"memory://{request.node.name.partition('[')[0]}")
    fsspec.filesystem("memory").store.clear()


def test_a_file(folder: RemotePath) -> None:
    path = folder / "net.pb"
    assert not path.exists()
    assert not path.is_file()
    with pytest.raises(StorageNotFoundError, match=r"memory://test_a_file/net\.pb: the object does not exist"):
        path.read_bytes()
    path.write_bytes(b"first")
    assert path.read_bytes() == b"first"
    assert (path.is_file(), path.is_dir(), path.stat().st_size) == (True, False, 5)
    local = Path(os.fspath(path))
    path.write_text("second")
    assert local.read_bytes() == b"first"  # until it is asked for again
    assert path.read_text() == "second"
    assert copy.deepcopy(path) == path  # without the local copy, as for another process
    path.unlink()
    path.unlink(missing_ok=True)
    with pytest.raises(StorageNotFoundError):
        path.unlink()


def test_a_folder(folder: RemotePath) -> None:
    for name in ("b.pb", "a/c.pb", "a/.hidden"):
        (folder / name).write_bytes(name.encode())
    assert [child.name for child in folder.iterdir()] == ["a", "b.pb"]
    assert folder.is_dir()
    assert [(str(place), [file.name for file in files]) for place, files in walk(folder)] == [
        (str(folder), ["b.pb"]),
        (f"{folder}/a", ["c.pb"]),
    ]
    assert {path.name: path.read_bytes() for path in Path(folder).iterdir()} == {"b.pb": b"b.pb"}


def test_what_is_published_replaces_what_was_there(folder: RemotePath) -> None:
    target = folder / "model"
    for content in (b"1", b"2"):
        with published(target) as local:
            local.mkdir()
            for name in ("predict_net.pb", "init_net.pb"):
                (local / name).write_bytes(content)
        assert [(file.name, file.read_bytes()) for file in target.iterdir()] == [
            ("init_net.pb", content),
            ("predict_net.pb", content),
        ]
    assert [child.name for child in folder.iterdir()] == ["model"]  # no temporary file stays


def test_a_failure_publishes_nothing(folder: RemotePath) -> None:
    target = folder / "net.onnx"
    target.write_bytes(b"old")

    def write() -> None:
        with published(target) as local:
            local.write_bytes(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert target.read_bytes() == b"old"


@pytest.mark.parametrize(("url", "package"), [("s3://bucket/x", "s3fs"), ("hf://user/x", "huggingface_hub")])
def test_a_package_that_is_not_installed(url: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    hint = rf"{url}: URLs of .* require the package {package}: pip install 'caffe2-bridge\[remote\]'"
    with pytest.raises(BridgeError, match=hint):
        locate(url).exists()
    with pytest.raises(BridgeError, match=hint), published(locate(url)):
        pass  # not reached


def test_a_local_target_is_itself(tmp_path: Path) -> None:
    with published(locate(str(tmp_path / "x"))) as local:
        assert local == tmp_path / "x"


def test_web_servers_and_archives_are_not_written(tmp_path: Path) -> None:
    for url in ("https://host/a", f"zip://a::{tmp_path}/x.zip"):
        with pytest.raises(StorageError, match="can be read only"), published(locate(url)):
            pass  # not reached
