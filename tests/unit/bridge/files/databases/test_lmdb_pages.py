"""The reader of LMDB files: it finds what LMDB finds, and survives what LMDB does not."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.databases import lmdb_file
from caffe2_bridge.files.databases.lmdb_pages import Tree
from caffe2_bridge.wire import Span

lmdb = pytest.importorskip("lmdb", reason="lmdb is an optional package")

PAGE = 4096
HEADER = 16  # bytes of a page
ROOT, LAST = HEADER + 112, HEADER + 120  # in a header page
NO_PAGE = b"\xff" * 8


@pytest.fixture
def draw() -> random.Random:
    return random.Random(2023)  # noqa: S311 - reproducible


def database(path: Path, **options: Any) -> Any:
    return lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 26, **options)


def many_records(draw: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Yield records of all sizes, of which a tree has several levels."""
    for _ in range(1500):
        size = draw.choice([0, 1, 100, 2000, 2100, 4079, 4080, 4081, 9000])
        yield draw.randbytes(draw.choice([1, 3, 300, 511])), draw.randbytes(size)


def small_file(path: Path) -> bytes:
    """Return records in a leaf, the last of which has three pages of its own: 2 is the leaf, 3 to 5 are the value."""
    lmdb_file.put_all(path, [(b"a", b"first"), (b"b", b"second"), (b"long", b"x" * (2 * PAGE))])
    data = path.read_bytes()
    assert len(data) == 6 * PAGE
    return data


def changed(data: bytes, at: int, new: bytes) -> bytes:
    """Return the file with other bytes; those of one of the first two pages in both, as either may be current."""
    found = bytearray(data)
    for start in (at, at + PAGE) if at < PAGE else (at,):
        found[start : start + len(new)] = new
    return bytes(found)


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(key, value.tobytes()) for key, value in Tree(Span.of(data)).records()]


def test_it_finds_what_lmdb_finds(tmp_path: Path, draw: random.Random) -> None:
    path = tmp_path / "data.mdb"
    environment = database(path)
    for _ in range(3):  # pages are used again
        with environment.begin(write=True) as transaction:
            for key, value in many_records(draw):
                transaction.put(key, value)
            for key in draw.sample(list(transaction.cursor().iternext(values=False)), 700):
                transaction.delete(key)
        with environment.begin() as transaction:
            tree = lmdb_file.open_tree(path)
            expected = list(transaction.cursor())
            assert transaction.stat()["depth"] > 2
            assert [(key, value.tobytes()) for key, value in tree.records()] == expected
            mine, theirs = tree.cursor(), transaction.cursor()
            for key in [b"", b"\xff" * 600, *(draw.randbytes(2) for _ in range(200)), expected[7][0]]:
                found = theirs.set_range(key)
                assert mine.seek(key) == found
                assert not found or (mine.key, mine.value.tobytes()) == (theirs.key(), theirs.value())
                assert not found or mine.next() == theirs.next()
                assert not found or mine.key == theirs.key() or not theirs.key()
    environment.close()
    lmdb_file.make_writable(path)  # the package's check fails on it
    assert [(key, value.tobytes()) for key, value in lmdb_file.open_tree(path).records()] == expected
    lmdb_file.put_all(path, [(b"\xff" * 9, b"more")])
    environment = database(path)
    with environment.begin() as transaction:
        assert list(transaction.cursor()) == [*expected, (b"\xff" * 9, b"more")]
    environment.close()


def test_an_empty_database(tmp_path: Path) -> None:
    lmdb_file.put_all(tmp_path / "data.mdb", [])
    cursor = lmdb_file.open_tree(tmp_path).cursor()
    assert not cursor.first()
    assert not cursor.seek(b"a")
    assert lmdb_file.blobs(tmp_path) == {}


@pytest.mark.parametrize(
    ("at", "new", "reason"),
    [
        (HEADER + 4, b"\3", "not an LMDB database of version 0.9"),
        (HEADER + 24, struct.pack("<I", 5000), "its pages have 5000 bytes"),
        (HEADER + 24, struct.pack("<I", 0), "its pages have 0 bytes"),
        (HEADER + 76, b"\4", "flags 0x4, which databases of Caffe2 do not have"),
        (HEADER + 104, b"\2", "it has 3 records, but its header counts 2"),
        (ROOT, b"\0", "page 0 is a header"),
        (ROOT, b"\7", "page 7 is missing"),
        (ROOT, b"\3", "page 3 has the flags 0x4, which pages of records do not have"),
        (ROOT, b"\1", "page 1 is a header"),
        (ROOT, NO_PAGE, "it has 0 records, but its header counts 3"),
        (LAST, b"\4", "page 5 is missing"),
        (2 * PAGE, b"\3", "page 2 is page 3"),
        (2 * PAGE + 12, b"\x10\0", "page 2 has free space from 16"),
        (2 * PAGE + 12, b"\xff\xff", "page 2 has free space from 65535"),
        (2 * PAGE + HEADER, b"\xff\xff", "a record of page 2 does not end in the page"),
        (2 * PAGE + HEADER, b"\xf8\x0f", "its keys are not sorted|does not end in the page"),
        (3 * PAGE, b"\4", "page 3 is page 4"),
        (3 * PAGE + 10, b"\2", "page 3 has the flags 0x2, which pages of a value do not have"),
    ],
)  # fmt: skip
def test_what_contradicts_itself(tmp_path: Path, at: int, new: bytes, reason: str) -> None:
    with pytest.raises(NetFormatError, match=reason):
        read(changed(small_file(tmp_path / "data.mdb"), at, new))


@pytest.mark.parametrize("size", [0, 100, 2 * PAGE, 3 * PAGE, 4 * PAGE + 1, 6 * PAGE - 1])
def test_a_file_that_is_cut_within_any_page(tmp_path: Path, size: int) -> None:
    data = small_file(tmp_path / "data.mdb")
    with pytest.raises(NetFormatError, match="truncated or damaged"):
        read(data[:size])


def node(data: bytes, page: int, index: int) -> int:
    """Return the position of a node."""
    (offset,) = struct.unpack_from("<H", data, page * PAGE + HEADER + 2 * index)
    return int(page * PAGE + offset)


def test_values_that_overlap(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    lmdb_file.put_all(path, [(name, name * PAGE) for name in (b"a", b"b", b"c")])
    data = bytearray(path.read_bytes())
    tree = Tree(Span.of(bytes(data)))
    assert tree.root is not None
    first = data[node(data, tree.root, 0) + 9 :][:8]
    for index in range(3):
        at = node(data, tree.root, index)
        data[at : at + 4] = struct.pack("<HH", 5 * PAGE - HEADER, 0)
        data[at + 9 : at + 17] = first
    with pytest.raises(NetFormatError, match="values overlap"):
        read(bytes(data))


def test_branches_that_share_their_children_end_soon() -> None:
    """Read thirty branches each of whose hundred nodes lead to the next branch: 100 ** 30 paths to one leaf."""
    size, count = 4096, 100
    meta = struct.pack("<QHHHH", 0, 0, 8, 0, 0) + struct.pack(
        "<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 24
    ) + struct.pack("<IHH4Q8s", size, 0, 0, 0, 0, 0, 0, NO_PAGE) + struct.pack(
        "<IHH4QQ", 0, 0, 31, 30, 1, 0, 1, 2
    ) + struct.pack("<QQ", 32, 0)  # fmt: skip
    pages = [meta, meta]
    for number in range(2, 33):
        lower = HEADER + 2 * count
        flags = 1 if number < 32 else 2
        nodes = b"".join(
            struct.pack("<HHHH", number + 1 if flags == 1 else 0, 0, 0, 4) + index.to_bytes(4, "big")
            for index in range(count)
        )
        offsets = struct.pack(f"<{count}H", *(lower + 12 * index for index in range(count)))
        pages.append(struct.pack("<QHHHH", number, 0, flags, lower, lower) + offsets + nodes)
    data = b"".join(page.ljust(size, b"\0") for page in pages)
    with pytest.raises(NetFormatError, match="its keys are not sorted"):
        read(data)
    pages[32] = pages[31]
    with pytest.raises(NetFormatError, match="page 32 is page 31"):
        read(b"".join(page.ljust(size, b"\0") for page in pages))


def test_a_branch_that_leads_to_itself(tmp_path: Path, draw: random.Random) -> None:
    path = tmp_path / "data.mdb"
    lmdb_file.put_all(path, list(many_records(draw)))
    data = bytearray(path.read_bytes())
    root = Tree(Span.of(bytes(data))).root
    assert root is not None
    at = node(data, root, 0)
    data[at : at + 2] = struct.pack("<H", root)
    with pytest.raises(NetFormatError, match="its tree has more than 32 levels"):
        read(bytes(data))


@pytest.mark.parametrize("kind", ["a database", "several values"])
def test_what_caffe2_does_not_write(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "data.mdb"
    if kind == "a database":
        environment = database(path, max_dbs=1)
        environment.open_db(b"named")
    else:
        data = bytearray(small_file(path))
        data[node(data, 2, 0) + 4] = 4
        path.write_bytes(data)
        environment = None
    if environment is not None:
        environment.close()
    with pytest.raises(NetFormatError, match=f"has {kind} with the key b'.+', not a record"):
        read(path.read_bytes())


def test_damage_anywhere_is_an_error_or_another_value(tmp_path: Path, draw: random.Random) -> None:
    path = tmp_path / "data.mdb"
    records = [(f"key{index}".encode() * 30, draw.randbytes(draw.choice([10, 5000]))) for index in range(60)]
    lmdb_file.put_all(path, records)
    data = path.read_bytes()
    used = [at for at in range(len(data)) if data[at]]
    outcomes = set()
    for _ in range(1000):
        mutated = bytearray(data)
        for _ in range(draw.choice([1, 1, 4])):
            mutated[draw.choice(used) if draw.random() < 0.5 else draw.randrange(len(data))] = draw.randrange(256)
        try:
            found = read(bytes(mutated[: draw.randrange(len(data))] if draw.random() < 0.2 else mutated))
        except NetFormatError:
            outcomes.add("error")
        else:
            outcomes.add("records")
            assert len(found) == len(records)
    assert outcomes == {"error", "records"}


def test_nothing_is_written_to_a_file_whose_values_are_cut(tmp_path: Path) -> None:
    """The check of the package lmdb, release 3.0, looks at the first page of a value alone."""
    path = tmp_path / "data.mdb"
    path.write_bytes(small_file(tmp_path / "whole")[: 4 * PAGE])
    with pytest.raises(NetFormatError, match="truncated or damaged: page 5 is missing") as caught:
        lmdb_file.make_writable(path)
    assert caught.value.source == str(path)
