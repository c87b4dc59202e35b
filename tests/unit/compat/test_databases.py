"""Databases of the extension module, as Caffe2's Python uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from caffe2_backend.databases import DatabaseError
from caffe2_compat.extension import databases, extension_names


def test_records_are_written_and_read(tmp_path: Path) -> None:
    path = str(tmp_path / "database")
    database = databases.create_db("minidb", path, databases.Mode.new)
    assert database is not None
    for key, value in (("a", "1"), (b"b", b"2")):
        transaction = database.new_transaction()
        transaction.put(key, value)
        transaction.commit()
    database.close()
    opened = databases.create_db(b"minidb", path, databases.read)
    assert opened is not None
    cursor = opened.new_cursor()
    seen = []
    while cursor.valid():
        seen.append((cursor.key(), cursor.value()))
        cursor.next()
    assert seen == [(b"a", b"1"), (b"b", b"2")]
    assert not cursor.supports_seek()
    cursor.seek_to_first()
    assert cursor.key() == b"a"


def test_errors_are_those_of_caffe2(tmp_path: Path) -> None:
    assert databases.create_db("rocks", "", databases.Mode.read) is None
    with pytest.raises(DatabaseError):
        databases.create_db("minidb", str(tmp_path / "none"), databases.Mode.read)


def test_the_module_has_the_names() -> None:
    names = extension_names()
    assert names["create_db"] is databases.create_db
    assert (names["read"], names["write"], names["new"]) == (0, 1, 2)
