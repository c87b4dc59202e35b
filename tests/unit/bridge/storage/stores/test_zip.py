"""Members of zip archives as files.

Modules: select, zip_store.
"""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from caffe2_bridge import limits
from caffe2_bridge.storage import RemotePath, StorageError, StorageNotFoundError


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/net.pb", b"net" * 1000)
        file.writestr("m/sub/deep", b"deep")
        file.writestr("../outside", b"evil")
        file.writestr("/absolute", b"evil")
        link = zipfile.ZipInfo("m/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(link, "/etc/passwd")
    return tmp_path / "x.zip"


def test_members(archive: Path) -> None:
    root = RemotePath(f"zip://::{archive}")
    assert [child.name for child in root.iterdir()] == ["m"]
    folder = RemotePath(f"zip://m::{archive}")
    assert [(child.name, child.is_dir()) for child in folder.iterdir()] == [("net.pb", False), ("sub", True)]
    assert (folder / "net.pb").read_bytes() == b"net" * 1000
    assert (folder / "sub/deep").read_bytes() == b"deep"
    assert folder.is_dir()


@pytest.mark.parametrize(
    ("member", "reason"), [("m/link", "the member is a link"), ("m/none", "no such member"), ("etc/passwd", "no such")]
)
def test_what_is_not_a_member(archive: Path, member: str, reason: str) -> None:
    with pytest.raises(StorageError, match=reason):
        RemotePath(f"zip://{member}::{archive}").read_bytes()


def test_damaged_archives(archive: Path, tmp_path: Path) -> None:
    data = bytearray(archive.read_bytes())
    data[60] ^= 1
    archive.write_bytes(data)
    with pytest.raises(StorageError, match="not a zip file, or damaged"):
        RemotePath(f"zip://m/net.pb::{archive}").read_bytes()
    archive.write_bytes(b"x")
    with pytest.raises(StorageError, match="not a zip file, or damaged"):
        RemotePath(f"zip://m/net.pb::{archive}").read_bytes()
    with pytest.raises(StorageNotFoundError, match="the archive does not exist"):
        RemotePath(f"zip://a::{tmp_path}/none.zip").read_bytes()


def test_another_archive_is_another_version(archive: Path) -> None:
    path = f"zip://m/net.pb::{archive}"
    assert RemotePath(path).read_bytes() == b"net" * 1000
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("m/net.pb", b"new")
    assert RemotePath(path).read_bytes() == b"new"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_member_that_unpacks_to_much_is_refused(tmp_path: Path, archive: Path, method: int) -> None:
    del archive
    with zipfile.ZipFile(tmp_path / "big.zip", "w", method) as file:
        file.writestr("big", bytes(3_000_000))
    with limits(unpacked_bytes=1_000_000), pytest.raises(StorageError, match=r"3,000,000, .* --limit unpacked_bytes="):
        RemotePath(f"zip://big::{tmp_path}/big.zip").read_bytes()
    with limits(unpacked_bytes=3_000_000):
        assert len(RemotePath(f"zip://big::{tmp_path}/big.zip").read_bytes()) == 3_000_000
