from __future__ import annotations

from pathlib import Path

import pytest

from caffe2_bridge.diagnostics import OptionError
from caffe2_bridge.storage import RemotePath, is_url, locate, mask
from caffe2_bridge.storage.urls import parse


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/a/b.pb", "s3://bucket/a/b.pb"),
        ("S3://bucket/a/", "s3://bucket/a"),
        ("abfs://container@account.dfs.core.windows.net/a", "abfs://container@account.dfs.core.windows.net/a"),
        ("hf://user/model/net.onnx", "hf://user/model/net.onnx"),
        ("memory://a//b", "memory://a//b"),
        ("https://user:secret@secret@host/", "https://***@host/"),
        ("https://user:secret@host:80/a b/?token=1&sv=2#x", "https://***@host:80/a%20b/?token=***&sv=***"),
        ("zip://a/b.pb::folder/x.zip", "zip://a/b.pb::folder/x.zip"),
        ("zip://a::https://u:p@h/x.zip?sig=1", "zip://a::https://***@h/x.zip?sig=***"),
    ],
)
def test_urls_are_shown_without_credentials(text: str, shown: str) -> None:
    assert is_url(text)
    assert str(locate(text)) == shown
    assert "secret" not in repr(locate(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file:///etc/passwd", "URLs of the scheme 'file' are not read; give a local file by its path"),
        ("ftp://u:secret@h/a", r"ftp://\*\*\*@h/a: URLs of the scheme 'ftp' are not read; use one of abfs://"),
        ("simplecache::s3://b/k", ""),
        ("s3://", "names no bucket"),
        ("https://", "names no server"),
        ("https://user:a/secret@host/b", r"^https://\*\*\*: the URL names no server"),
        ("s3://b/k::file:///etc/passwd", "only zip://MEMBER::ARCHIVE joins two locations"),
        ("zip://a", "give the archive: zip://MEMBER::ARCHIVE"),
        ("zip://../a::x.zip", "is not the name of a member"),
        ("zip://a::file:///x.zip", "URLs of the scheme 'file' are not read"),
        ("zip://a::zip://b::x.zip", "an archive inside of an archive is not read"),
    ],
)
def test_other_urls_are_refused(text: str, reason: str) -> None:
    if not reason:
        assert locate(text) == Path(text)  # the name of a local file: nothing is chained
        return
    with pytest.raises(OptionError, match=reason):
        locate(text)


def test_paths_stay_paths() -> None:
    assert [locate(text) for text in ("a/b", "C:\\a", "x:y")] == [Path("a/b"), Path("C:\\a"), Path("x:y")]
    assert not is_url(Path("s3://b/k"))
    with pytest.raises(OptionError, match="pass the URL as text"):
        locate(Path("s3://b/k"))


@pytest.mark.parametrize("name", ["../x", "/x", "a/../x", "a\\b", "", "a//b", ".", "a\0"])
@pytest.mark.parametrize("folder", ["s3://b/m", "https://h/m/", "zip://m::x.zip"])
def test_children_stay_in_their_folder(folder: str, name: str) -> None:
    with pytest.raises(ValueError, match="not a relative path inside of the folder"):
        locate(folder) / name


def test_parts_of_urls() -> None:
    path = locate("https://h/models/a%20b.onnx?sig=1")
    assert (path.name, path.stem, path.suffix) == ("a b.onnx", "a b", ".onnx")
    assert str(path.with_name("c?.pb")) == "https://h/models/c%3F.pb?sig=***"
    assert str(path.parent.parent) == "https://h/?sig=***"
    inside = locate("zip://m/net.pb::s3://b/x.zip")
    assert isinstance(inside, RemotePath)
    assert str(inside.parent / "init.pb") == "zip://m/init.pb::s3://b/x.zip"
    assert str(locate("s3://b/a").parent.parent) == "s3://b/"


def test_cache_keys_ignore_credentials_and_signatures() -> None:
    signed = [parse(f"https://{user}h/a?id=1&X-Amz-Signature={n}&sig={n}") for n, user in enumerate(["", "u:p@"])]
    assert len({url.key for url in signed}) == 1
    assert parse("https://h/a?id=2").key != signed[0].key
    assert parse("s3://b/a").key != parse("s3://b/b").key


def test_masks_in_messages() -> None:
    text = "GET https://u:p@h/a?X-Amz-Signature=abc&x=1 failed, see s3://key:secret@b/k"
    assert mask(text) == "GET https://***@h/a?X-Amz-Signature=***&x=*** failed, see s3://***@b/k"


def test_temporary_names_are_no_longer_than_names_may_be() -> None:
    for name in ("net.pb", "\u00e9" * 127):
        temporary = parse(f"s3://bucket/folder/{name}").temporary()
        assert (temporary.root, temporary.parent.path) == ("bucket", "folder")
        assert len(temporary.name.encode()) <= 255
        assert temporary.name.startswith(".")
