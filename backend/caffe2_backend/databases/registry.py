"""The kinds of databases, by Caffe2's names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from caffe2_backend.databases.database import Database, DatabaseError, Mode
from caffe2_backend.databases.leveldb import LevelDatabase
from caffe2_backend.databases.lmdb import LmdbDatabase
from caffe2_backend.databases.minidb import MiniDatabase
from caffe2_backend.databases.protodb import ProtoDatabase

DATABASES: Final[Mapping[str, type[Database]]] = MappingProxyType(
    {
        "minidb": MiniDatabase,
        "MiniDB": MiniDatabase,
        "protodb": ProtoDatabase,
        "ProtoDB": ProtoDatabase,
        "lmdb": LmdbDatabase,
        "LMDB": LmdbDatabase,
        "leveldb": LevelDatabase,
        "LevelDB": LevelDatabase,
    }
)


def create_database(db_type: str, path: str | os.PathLike[str], mode: Mode) -> Database:
    """Open a database.

    Args:
        db_type: a key of ``DATABASES``.
        path: the file of a minidb or protodb database, the folder of others.
        mode: how to open it.

    Raises DatabaseError if the type is unknown, or the database cannot be opened.
    """
    kind = DATABASES.get(db_type)
    if kind is None:
        known = ", ".join(DATABASES)
        raise DatabaseError(f"database type {db_type!r} (of {os.fspath(path)!r}) is unknown; known are {known}")
    return kind(path, mode)


def database_exists(db_type: str, path: str | os.PathLike[str]) -> bool:
    """Whether a database can be opened for reading."""
    try:
        create_database(db_type, path, Mode.READ).close()
    except DatabaseError:
        return False
    return True
