"""Databases as Caffe2 has them: records of a key and a value, read by cursors and written by transactions."""

from caffe2_backend.databases.database import Cursor, Database, DatabaseError, Mode, Transaction
from caffe2_backend.databases.reader import DatabaseReader
from caffe2_backend.databases.registry import DATABASES, create_database, database_exists

__all__ = [
    "DATABASES",
    "Cursor",
    "Database",
    "DatabaseError",
    "DatabaseReader",
    "Mode",
    "Transaction",
    "create_database",
    "database_exists",
]
