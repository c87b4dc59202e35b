"""Files of a real web server on loopback.

Modules: http_requests, http_store.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.storage.web_server import Site, paths, serving

from caffe2_bridge.storage import NotListableError, RemotePath, StorageError, StorageNotFoundError, retries
from caffe2_bridge.storage.stores import ranged_file

CONTENT = bytes(range(256)) * 20_000  # 5 MB


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("CAFFE2_BRIDGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.0)
    with serving(Site({"zoo/net.pb": CONTENT, "zoo/a b.pb": b"space", "zoo/sub/x": b"x", "empty": b""})) as found:
        yield found


def remote(site: Site, path: str = "zoo/net.pb") -> RemotePath:
    return RemotePath(f"{site.url}/{path}")


def test_a_file_is_downloaded_once(site: Site) -> None:
    assert remote(site).read_bytes() == CONTENT
    assert remote(site).read_bytes() == CONTENT
    assert site.sent < 1.1 * len(CONTENT)
    assert remote(site).stat().st_size == len(CONTENT)
    assert remote(site, "zoo/a%20b.pb").read_bytes() == b"space"
    assert remote(site, "empty").read_bytes() == b""


def test_another_version_is_downloaded_again(site: Site) -> None:
    before = remote(site).local().read_bytes()
    site.files["zoo/net.pb"] = CONTENT[::-1]
    assert remote(site).read_bytes() == CONTENT[::-1] != before


def test_a_cut_download_continues_where_it_was_cut(site: Site) -> None:
    site.cuts = [2_000_000, None, 1_500_000]
    assert remote(site).read_bytes() == CONTENT
    ranges = [asked for _, asked in site.requests if asked not in {"", "bytes=0-0"}]
    assert ranges[0] == "bytes=2000000-"
    assert site.sent <= len(CONTENT) + 10


def test_a_download_continues_in_another_process(site: Site) -> None:
    site.cuts = [3_000_000] + [0] * (retries.ATTEMPTS - 1)
    with pytest.raises(StorageError, match=r"net\.pb: the connection was cut .*\(tried 5 times\)"):
        remote(site).read_bytes()
    site.requests.clear()
    assert remote(site).read_bytes() == CONTENT
    assert ("zoo/net.pb", "bytes=3000000-") in site.requests


def test_any_byte_is_progress(site: Site) -> None:
    site.cuts = [1000] * 20
    assert remote(site).read_bytes() == CONTENT


def test_a_version_that_comes_back_does_not_continue_another(site: Site) -> None:
    class Changing(list[int | None]):
        def pop(self, index: int = 0) -> int | None:  # type: ignore[override] # the first alone is taken
            site.files["zoo/net.pb"] = CONTENT[::-1]
            return super().pop(index)

    site.cuts = Changing([2_000_000, None, 1_000_000, *([0] * (retries.ATTEMPTS - 1))])
    with pytest.raises(StorageError, match="tried 5 times"):
        remote(site).read_bytes()
    site.files["zoo/net.pb"] = CONTENT
    assert remote(site).read_bytes() == CONTENT


def test_without_ranges_a_cut_download_starts_again(site: Site) -> None:
    site.ranges = False
    site.cuts = [None, 2_000_000]  # the first response is to the question about the file
    assert remote(site).read_bytes() == CONTENT
    site.tags = False
    assert remote(site).read_bytes() == CONTENT


def test_a_file_that_changes_between_ranges_is_read_anew(site: Site) -> None:
    changed = CONTENT[::-1]

    class Changing(list[int | None]):
        def pop(self, index: int = 0) -> int | None:  # type: ignore[override] # the first alone is taken
            site.files["zoo/net.pb"] = changed
            return super().pop(index)

    site.cuts = Changing([2_000_000])
    assert remote(site).read_bytes() == changed


def test_a_version_that_is_not_stated_is_not_kept(site: Site) -> None:
    site.tags = False
    path = remote(site)
    assert path.read_bytes() == CONTENT
    site.files["zoo/net.pb"] = CONTENT[::-1]
    assert path.read_bytes() == CONTENT  # the same object: the same content
    assert remote(site).read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(("status", "reason"), [(403, "denies access"), (404, "no such file"), (400, "refused")])
def test_refusals_are_not_repeated(site: Site, status: int, reason: str) -> None:
    site.statuses = [status]
    with pytest.raises(StorageError, match=rf"{reason}.*\(HTTP {status}"):
        remote(site).read_bytes()
    assert len(site.requests) == 1


def test_an_overloaded_server_is_asked_again(site: Site) -> None:
    site.statuses = [503, 429]
    assert remote(site).read_bytes() == CONTENT


def test_folders(site: Site) -> None:
    folder = remote(site, "zoo/")
    assert folder.is_dir()
    assert [(child.name, child.is_dir()) for child in folder.iterdir()] == [
        ("a b.pb", False),
        ("net.pb", False),
        ("sub", True),
    ]
    assert (folder / "sub" / "x").read_bytes() == b"x"
    assert sorted(file.name for file in Path(folder).iterdir()) == ["a b.pb", "net.pb"]
    site.redirects["zoo"] = "/zoo/"
    assert remote(site, "zoo").is_dir()
    site.lists = False
    with pytest.raises(NotListableError, match="does not list"):
        list(folder.iterdir())


def test_a_missing_file(site: Site) -> None:
    assert not remote(site, "zoo/no").exists()
    assert not remote(site, "zoo/no").is_file()
    with pytest.raises(StorageNotFoundError):
        remote(site, "zoo/no").local()


def test_no_server(site: Site) -> None:
    url = site.url.rpartition(":")[0] + ":1/x"
    with pytest.raises(StorageError, match=r"the server cannot be reached.*tried 5 times"):
        RemotePath(url).read_bytes()


def test_credentials_go_to_their_server_alone(site: Site) -> None:
    site.password = "Basic dXNlcjpwQHNz"  # noqa: S105 - of user:p@ss
    with serving(Site({"x": b"elsewhere"})) as other:
        site.redirects["away"] = f"{other.url}/x"
        address = site.url.replace("://", "://user:p%40ss@")
        assert RemotePath(f"{address}/zoo/a%20b.pb").read_bytes() == b"space"
        assert RemotePath(f"{address}/away").read_bytes() == b"elsewhere"
        assert all("Authorization" not in headers for headers in other.headers)
    with pytest.raises(StorageError, match=r"http://\*\*\*@127") as failed:
        RemotePath(f"{address.replace('p%40ss', 'secret')}/zoo/net.pb").read_bytes()
    assert "secret" not in str(failed.value)


def test_redirects_lead_to_web_servers_only(site: Site) -> None:
    site.redirects["zoo/net.pb"] = "file:///etc/passwd"
    with pytest.raises(StorageError, match=r"refused|not followed|cut"):
        remote(site).read_bytes()


def test_a_member_of_a_remote_archive_is_read_by_ranges(site: Site, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("big", os.urandom(8_000_000))
        archive.writestr("m/net.pb", b"net")
    site.files["x.zip"] = (tmp_path / "x.zip").read_bytes()
    path = RemotePath(f"zip://m/net.pb::{site.url}/x.zip")
    assert path.read_bytes() == b"net"
    assert site.sent < 4_000_000
    assert paths(site)
    site.ranges = False
    assert [child.name for child in path.parent.iterdir()] == ["net.pb"]


def test_a_list_of_members_that_is_too_long(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for index in range(10_000):  # in a list of 2.4 MB
            archive.writestr(f"{index:0200}", b"")
    site.files["x.zip"] = (tmp_path / "x.zip").read_bytes()
    monkeypatch.setattr(ranged_file, "_LARGEST", 1 << 20)
    with pytest.raises(StorageError, match="the archive claims a list of members of"):
        list(RemotePath(f"zip://::{site.url}/x.zip").iterdir())
