"""The local cache: its limit, and several users at once.

Modules: download, fetch.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.storage.web_server import Site, serving

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import RemotePath, StorageError
from caffe2_bridge.storage.cache import locks
from caffe2_bridge.storage.cache.settings import cache_folder, cache_limit

FILES = {f"m/{name}": name.encode() * 1000 for name in "abcd"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    with serving(Site(dict(FILES))) as found:
        yield found


def cached(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("storage/*/files/*"))


def test_the_least_recently_used_is_removed(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "3KB")
    paths = {name: RemotePath(f"{site.url}/m/{name}") for name in "abcd"}
    for index, name in enumerate("abc"):
        RemotePath(f"{site.url}/m/{name}").local()
        for file in tmp_path.glob("cache/storage/*/state/*.use"):  # as if they were used in this order
            if file.stat().st_mtime > 1e9:
                os.utime(file, (index, index))
    assert paths["b"].local().exists()  # in use from here on
    paths["d"].local()
    assert cached(tmp_path / "cache") == ["b", "c", "d"]
    assert paths["a"].read_bytes() == FILES["m/a"]
    assert cached(tmp_path / "cache") == ["a", "b", "d"]


@pytest.fixture
def kept(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache with room for 1.5 of the files, and one in it: that one stays."""
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "1500")
    RemotePath(f"{site.url}/m/a").local()
    yield tmp_path / "cache"
    assert cached(tmp_path / "cache") == ["a"]
    assert not [part for part in tmp_path.glob("cache/storage/*/state/*.part") if part.stat().st_size]


@pytest.mark.parametrize("claimed", [1501, 10**13])
def test_a_file_above_the_limit_is_refused(site: Site, kept: Path, claimed: int) -> None:
    del kept
    site.claims["m/b"] = claimed
    with pytest.raises(StorageError, match=rf"/m/b: .* {claimed:,} bytes, .* 1,500: set CAFFE2_BRIDGE_CACHE_SIZE="):
        RemotePath(f"{site.url}/m/b").read_bytes()


def test_a_file_above_the_disk_is_refused(site: Site, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del kept
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "100TB")
    site.claims["m/b"] = 10**13
    with pytest.raises(StorageError, match=r"has 10,000,000,000,000 bytes, and the disk of the cache has room for"):
        RemotePath(f"{site.url}/m/b").read_bytes()


def test_a_file_that_grows_beyond_the_limit_is_refused(site: Site, kept: Path) -> None:
    del kept
    site.files["m/b"] = bytes(400)

    class Growing(list[int | None]):
        def pop(self, index: int = 0) -> int | None:  # type: ignore[override] # the first alone is taken
            site.files["m/b"] = bytes(2000)
            return super().pop(index)

    site.cuts = Growing([100])
    with pytest.raises(StorageError, match=r"has 2,000 bytes, and the cache holds 1,500"):
        RemotePath(f"{site.url}/m/b").read_bytes()


def test_a_stream_without_a_length_ends_at_the_limit(site: Site, kept: Path) -> None:
    del kept
    site.endless["m/b"] = b"x" * 1000
    with pytest.raises(StorageError, match=r"of a size that is not stated, has more than the 1,500 bytes of the cache"):
        RemotePath(f"{site.url}/m/b").read_bytes()


def test_room_is_made_for_what_comes_not_for_what_is_claimed(
    site: Site, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del kept
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "1GB")
    site.claims["m/b"] = 10**9 - 1
    with pytest.raises(StorageError, match="tried 5 times"):
        RemotePath(f"{site.url}/m/b").read_bytes()
    for part in cache_folder().glob("*/state/*.part"):
        part.unlink()


def test_a_full_disk(site: Site, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "1GB")
    held = RemotePath(f"{site.url}/m/a")
    assert held.local().is_relative_to(kept)
    usage = shutil.disk_usage(kept)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=500))
    with pytest.raises(StorageError, match="No space left on device"):
        RemotePath(f"{site.url}/m/b").read_bytes()


def test_several_users_download_once(site: Site) -> None:
    site.files["big"] = os.urandom(3_000_000)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: RemotePath(f"{site.url}/big").read_bytes(), range(6)))
    assert set(found) == {site.files["big"]}
    assert site.sent < 3_100_000


def test_another_process_uses_the_cache(site: Site, tmp_path: Path) -> None:
    RemotePath(f"{site.url}/m/a").local()
    sent = site.sent
    code = f"import sys; from caffe2_bridge.storage import locate; print(locate('{site.url}/m/a').read_text()[:3])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "CAFFE2_BRIDGE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - our own
    assert done.stdout == "aaa\n"
    assert site.sent <= sent + 1


def test_what_a_killed_process_left_is_removed(site: Site, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "storage" / ".staged.0123abcd.tmp"
    left.mkdir(parents=True)
    assert RemotePath(f"{site.url}/m/").is_dir()
    folder = RemotePath(f"{site.url}/m/")  # whose local copy exists as long as it does
    assert len(list(Path(folder).iterdir())) == len(FILES)
    assert not left.exists()


def test_damaged_entries_are_downloaded_again(site: Site, tmp_path: Path) -> None:
    path = RemotePath(f"{site.url}/m/a").local()
    path.write_bytes(b"short")
    assert RemotePath(f"{site.url}/m/a").read_bytes() == FILES["m/a"]
    for state in tmp_path.glob("cache/storage/*/state/*.json"):
        state.write_text("{")
    assert RemotePath(f"{site.url}/m/a").read_bytes() == FILES["m/a"]


def test_names_that_file_systems_refuse(site: Site) -> None:
    for name in ("x" * 300 + ".onnx", "a:b"):
        site.files[f"m/{name}"] = name.encode()
        assert RemotePath(f"{site.url}/m/{name}").read_bytes() == name.encode()
    assert RemotePath(f"{site.url}/m/{'x' * 300}.onnx").local().suffix == ".onnx"


@pytest.mark.parametrize("name", ["%2e%2e%2foutside", "%2foutside", "%2e%2e", "a%5c..%5cb", "%2e"])
def test_no_name_leaves_the_cache(site: Site, tmp_path: Path, name: str) -> None:
    site.files[f"m/{unquote(name)}"] = b"inside"
    path = RemotePath(f"{site.url}/m/{name}").local()
    assert path.read_bytes() == b"inside"
    assert path.resolve().is_relative_to((tmp_path / "cache" / "storage").resolve())
    assert not list(tmp_path.glob("outside"))


def test_the_cache_is_private(site: Site) -> None:
    RemotePath(f"{site.url}/m/a").local()
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CAFFE2_BRIDGE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "caffe2-bridge" / "storage"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "caffe2-bridge" / "storage"


@pytest.mark.parametrize(("text", "size"), [("10", 10), ("1.5 MB", 1_500_000), ("2G", 2 * 10**9), ("", 50 * 10**9)])
def test_the_limit(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", text)
    assert cache_limit() == size


def test_a_wrong_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE_SIZE", "much")
    with pytest.raises(OptionError, match="must be a size such as 500MB"):
        cache_limit()


def test_locks(tmp_path: Path) -> None:
    with locks.acquire(tmp_path / "x", shared=True), locks.acquire(tmp_path / "x", shared=True):
        assert locks.try_acquire(tmp_path / "x") is None
    found = locks.try_acquire(tmp_path / "x")
    assert found is not None
    (tmp_path / "x").unlink()
    with locks.acquire(tmp_path / "x"):  # the new file of that name
        found.release()
        found.release()
