"""Databases of nets: CreateDB and DBExists."""

from __future__ import annotations

import numpy as np

from caffe2_backend.databases import Database, DatabaseError, DatabaseReader, Mode, create_database, database_exists
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import HostObject

family = HostFamily("database readers")


class HostReader(HostObject):
    """A reader of a database.

    Args:
        db_type: of the database.
        source: its path.
        database: open for reading.
        num_shards, shard_id: see DatabaseReader.
    """

    type_name = "caffe2::db::DBReader"

    def __init__(
        self, db_type: str, source: str, database: Database, *, num_shards: int = 1, shard_id: int = 0
    ) -> None:
        self.db_type = db_type
        self.source = source
        self.database = database
        self.reader = DatabaseReader(database.cursor(), num_shards=num_shards, shard_id=shard_id)


def path_of(op: HostOp, name: str) -> str:
    """Return a path in an argument: below the workspace's root folder unless ``absolute_path`` is set."""
    return op.frame.files.path(name, absolute=op.args.flag("absolute_path", default=False))


@family.runs("CreateDB")
def create_db(op: HostOp) -> None:
    """CreateDB(; db, db_type="leveldb", num_shards=1, shard_id=0) -> reader."""
    path, db_type = op.args.text("db", default=""), op.args.text("db_type", default="leveldb")
    if not path:
        raise op.error("the argument db must be the path of a database")
    with op.translating(DatabaseError):
        reader = HostReader(
            db_type,
            path,
            create_database(db_type, op.frame.files.path(path, absolute=True), Mode.READ),
            num_shards=op.args.integer("num_shards", default=1),
            shard_id=op.args.integer("shard_id", default=0),
        )
    op.set(0, reader)


@family.runs("DBExists")
def db_exists(op: HostOp) -> None:
    """DBExists(; db_name, db_type, absolute_path=0) -> whether the database can be opened."""
    path = path_of(op, op.args.text("db_name", default=""))
    op.set(0, np.bool_(database_exists(op.args.text("db_type", default=""), path)))
