"""Databases of every kind: written, read, seeked and read in shards.

Modules: registry.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from caffe2_backend.databases import (
    Cursor,
    DatabaseError,
    DatabaseReader,
    Mode,
    create_database,
    database_exists,
)
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

KINDS = ["minidb", "protodb", "lmdb", "leveldb"]
SORTED = ["lmdb", "leveldb"]


def value(name: str) -> bytes:
    return TensorProto(name=name, float_data=[1, 2], data_type=TensorProto.FLOAT, dims=[2]).SerializeToString()


def fill(kind: str, path: Path, names: list[str], mode: Mode = Mode.NEW) -> None:
    database = create_database(kind, path, mode)
    transaction = database.transaction()
    for name in names:
        transaction.put(name.encode(), value(name))
    transaction.commit()
    database.close()


def opened(kind: str, path: Path) -> Cursor:
    return create_database(kind, path, Mode.READ).cursor()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    pytest.importorskip({"lmdb": "lmdb", "leveldb": "plyvel"}.get(name, "numpy"))
    return name


def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "database"
    assert not database_exists(kind, path)
    fill(kind, path, ["b", "a"])
    fill(kind, path, ["c"], Mode.WRITE)
    assert database_exists(kind, path)
    names = ["a", "b", "c"] if kind in SORTED else ["b", "a", "c"]
    assert list(opened(kind, path).records()) == [(name.encode(), value(name)) for name in names]


def test_a_cursor_ends_and_begins_again(kind: str, tmp_path: Path) -> None:
    fill(kind, tmp_path / "database", ["a", "b"])
    cursor = opened(kind, tmp_path / "database")
    cursor.next()
    assert (cursor.valid, cursor.key) == (True, b"b")
    cursor.next()
    assert not cursor.valid
    for read in ("key", "value"):
        with pytest.raises(DatabaseError, match="at the end of the database"):
            getattr(cursor, read)
    cursor.seek_to_first()
    assert (cursor.valid, cursor.key) == (True, b"a")


def test_a_database_is_read_several_times_at_once(kind: str, tmp_path: Path) -> None:
    fill(kind, tmp_path / "database", ["a", "b"])
    first = opened(kind, tmp_path / "database")
    first.next()
    second = opened(kind, tmp_path / "database")
    assert (first.key, second.key) == (b"b", b"a")


@pytest.mark.parametrize("kind", SORTED, indirect=True)
def test_sorted_databases_seek(kind: str, tmp_path: Path) -> None:
    fill(kind, tmp_path / "database", ["a", "c", "e"])
    cursor = opened(kind, tmp_path / "database")
    assert cursor.supports_seek
    cursor.seek(b"b")
    assert cursor.key == b"c"
    cursor.seek(b"f")
    assert not cursor.valid


@pytest.mark.parametrize("kind", ["minidb", "protodb"], indirect=True)
def test_other_databases_do_not_seek(kind: str, tmp_path: Path) -> None:
    fill(kind, tmp_path / "database", ["a"])
    cursor = opened(kind, tmp_path / "database")
    assert not cursor.supports_seek
    with pytest.raises(DatabaseError, match="does not support seeking"):
        cursor.seek(b"a")


def test_a_transaction_ends_with_its_object(kind: str, tmp_path: Path) -> None:
    database = create_database(kind, tmp_path / "database", Mode.NEW)
    transaction = database.transaction()
    transaction.put(b"a", value("a"))
    del transaction
    database.close()
    assert [key for key, _ in opened(kind, tmp_path / "database").records()] == [b"a"]


def test_large_records_are_written(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "database"
    for name, mode in (("a", Mode.NEW), ("b", Mode.WRITE)):
        database = create_database(kind, path, mode)
        transaction = database.transaction()
        transaction.put(name.encode(), TensorProto(name=name, byte_data=bytes(20 << 20)).SerializeToString())
        transaction.commit()
        database.close()
    assert [len(content) > 20 << 20 for _, content in opened(kind, path).records()] == [True, True]


@pytest.mark.parametrize("kind", ["lmdb"], indirect=True)
def test_names_that_are_too_long_are_errors(kind: str, tmp_path: Path) -> None:
    transaction = create_database(kind, tmp_path / "database", Mode.NEW).transaction()
    transaction.put(b"a", b"1")
    transaction.put(b"k" * 600, b"1")
    with pytest.raises(DatabaseError, match="LMDB allows at most"):
        transaction.commit()
    assert list(opened(kind, tmp_path / "database").records()) == []


def test_modes_are_kept(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "database"
    database = create_database(kind, path, Mode.NEW)
    with pytest.raises(DatabaseError, match="not open for reading"):
        database.cursor()
    transaction = database.transaction()
    database.close()
    transaction.put(b"a", value("a"))
    with pytest.raises(DatabaseError, match="was closed before"):
        transaction.commit()
    with pytest.raises(DatabaseError, match="not open for writing"):
        create_database(kind, path, Mode.READ).transaction()


def test_a_missing_or_damaged_database_is_an_error(kind: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="none"):
        create_database(kind, tmp_path / "none", Mode.READ)
    (tmp_path / "text").write_text("no database", encoding="utf-8")
    with pytest.raises(DatabaseError, match="text"):
        list(opened(kind, tmp_path / "text").records())
    with pytest.raises(DatabaseError, match=r"'rocks' .* is unknown"):
        create_database("rocks", tmp_path / "none", Mode.READ)


@pytest.mark.parametrize("kind", SORTED, indirect=True)
def test_damage_that_the_cursor_comes_to_is_an_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "database"
    fill(kind, path, [f"{index:03}" for index in range(200)])
    table = max(path.glob("data.mdb" if kind == "lmdb" else "*.l[od][gb]"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    at = data.rindex(b"100") if kind == "leveldb" else data.rindex(b"199") // 4096 * 4096  # the number of the page
    data[at] ^= 0x55
    table.write_bytes(data)
    with pytest.raises(DatabaseError, match=r"database .*: the L.* database (cannot be read|is truncated or damaged)"):
        list(opened(kind, path).records())
    if kind == "lmdb":
        with pytest.raises(DatabaseError, match="the LMDB database is truncated or damaged"):
            create_database(kind, path, Mode.WRITE)
    assert table.read_bytes() == data


def test_protodb_checks_names(tmp_path: Path) -> None:
    database = create_database("protodb", tmp_path / "database", Mode.NEW)
    transaction = database.transaction()
    for key, content, message in (
        (b"a", b"\xff", "not a TensorProto"),
        (b"b", value("a"), "is not the tensor's name"),
    ):
        transaction.put(key, content)
        with pytest.raises(DatabaseError, match=message):
            transaction.commit()
    transaction.put(b"a", value("a"))
    transaction.commit()
    transaction.put(b"a", value("a"))
    with pytest.raises(DatabaseError, match="exists already"):
        transaction.commit()


# What real Caffe2 1.9.1 read for 7 records: the keys of 8 reads by shard.
@pytest.mark.parametrize(
    ("num_shards", "shard_id", "keys"),
    [(1, 0, "abcdefga"), (3, 0, "adgadgad"), (3, 1, "bebebebe"), (3, 2, "cfcfcfcf")],
)
def test_shards_begin_anew_at_the_end(num_shards: int, shard_id: int, keys: str, tmp_path: Path) -> None:
    fill("minidb", tmp_path / "database", list("abcdefg"))
    reader = DatabaseReader(opened("minidb", tmp_path / "database"), num_shards=num_shards, shard_id=shard_id)
    assert b"".join(reader.read()[0] for _ in range(8)).decode() == keys
    reader.seek_to_first()
    assert reader.read()[0].decode() == keys[0]


def test_shards_that_do_not_exist_are_errors(tmp_path: Path) -> None:
    fill("minidb", tmp_path / "database", ["a", "b"])
    with pytest.raises(DatabaseError, match="below num_shards"):
        DatabaseReader(opened("minidb", tmp_path / "database"), num_shards=2, shard_id=2)
    with pytest.raises(DatabaseError, match="not enough records for shard 2"):
        DatabaseReader(opened("minidb", tmp_path / "database"), num_shards=3, shard_id=2)
