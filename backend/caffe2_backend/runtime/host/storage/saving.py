"""Saving blobs in databases: Save, Checkpoint and Snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError

from caffe2_backend.databases import DATABASES, DatabaseError, Mode, create_database
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.storage.messages import value_records
from caffe2_backend.runtime.host.storage.readers import path_of
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.files.blobs.record_writer import CHUNK_SIZE, Record
from caffe2_bridge.files.saver import save_records
from caffe2_bridge.proto.caffe2_pb2 import BlobSerializationOptions, SerializationOptions

family = HostFamily("saving")

_CONVERSION: Final = re.compile(r"%(?:(%)|([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t)?([diouxX]))")

_LONGEST_PATH: Final = 4096
_DIGITS: Final = 9


@family.runs("Save")
def save(op: HostOp) -> None:
    """Save(blob...; db, db_type, absolute_path=0, strip_prefix="", blob_name_overrides, chunk_size, options) -> ().

    The database is written under another name and renamed when it is complete. ``chunk_size`` is the number of elements
    of a record (-1: one million; 0: all); ``options``, a SerializationOptions, gives another one, or bfloat16 for
    float32, to the blobs whose names match a regular expression.
    """
    _save(op, op.args.text("db", default=""))


@family.runs("Checkpoint", "Snapshot")
def checkpoint(op: HostOp) -> None:
    """Checkpoint(iter, blob...; db, every=1, ...) -> (): Save in a database that is named by ``iter``.

    Do so where ``iter``, the first element of an int64 tensor, is a multiple of ``every``. ``db`` is a format of C's
    printf for an integer. All inputs are saved, ``iter`` included.
    """
    pattern, every = op.args.text("db", default=""), op.args.integer("every", default=1)
    if not pattern:
        raise op.error("the argument db must be a pattern for the paths of databases")
    if every < 1:
        raise op.error(f"every must be 1 at least, not {every}")
    iterations = op.array(0, np.int64)
    if not iterations.size:
        raise op.error(f"blob {op.inputs[0]!r} must have an element")
    iteration = int(iterations.reshape(-1)[0])
    if iteration % every == 0:
        _save(op, _formatted(op, pattern, iteration))


def _formatted(op: HostOp, pattern: str, number: int) -> str:
    """Return the text that C's printf makes of a pattern and an integer."""
    widths = [width for found in _CONVERSION.finditer(pattern) for width in re.findall(r"\d+", found[2] or "")]
    if sum(int(width) if len(width) < _DIGITS else _LONGEST_PATH for width in widths) >= _LONGEST_PATH:
        raise op.error(f"the widths in the argument db add up to more than a path has: {_LONGEST_PATH:,} characters")
    return _CONVERSION.sub(lambda m: "%" if m[1] else f"%{m[2]}{m[3].replace('u', 'd')}" % number, pattern)


def _save(op: HostOp, db: str) -> None:
    db_type = op.args.text("db_type", default="")
    if not db or db_type not in DATABASES:
        raise op.error(
            f"the argument {'db_type' if db else 'db'} must be {_KINDS if db else 'the path of a database'}, not "
            f"{db_type if db else db!r}"
        )
    path = Path(path_of(op, db))
    names = _names(op)
    options = _options(op)
    if not path.absolute().parent.is_dir():
        raise op.error(f"{path}: the folder {path.parent} does not exist")
    values = [op.value(index) for index in range(len(names))]

    def records() -> Iterator[Record]:
        for name, value in zip(names, values, strict=True):
            chunk_size, as_bfloat16 = _settings(op, name, options)
            yield from value_records(name, value, chunk_size=chunk_size, as_bfloat16=as_bfloat16)

    with op.translating(BridgeError):
        _write(db_type, path, records())


def _write(db_type: str, path: Path, records: Iterable[Record]) -> None:
    """Write a new database. Raises BridgeError if it cannot be written, or a folder of the name exists already."""
    form = db_type.lower()
    if form == "protodb":
        database = create_database(db_type, path, Mode.NEW)
        transaction = database.transaction()
        for key, value in records:
            transaction.put(key.encode(), bytes(value))
        transaction.commit()
        database.close()
        return
    if form != "minidb" and path.exists():
        raise DatabaseError(f"database {path} exists already")
    save_records(records, path, form)


_KINDS: Final = f"one of {', '.join(DATABASES)}"


def _names(op: HostOp) -> list[str]:
    """Return the names of the blobs in the database. Raises RunError if two are the same."""
    overrides = list(op.args.texts("blob_name_overrides", default=()))
    prefix = op.args.text("strip_prefix", default="")
    if overrides:
        if len(overrides) != len(op.inputs) or prefix:
            raise op.error("blob_name_overrides must have a name for each input, and excludes strip_prefix")
        return overrides
    names = [name.partition(prefix)[2] if prefix and prefix in name else name for name in op.inputs]
    for name in names:
        if names.count(name) > 1:
            raise op.error(f"two inputs are saved as {name!r}")
    return names


Option = tuple[re.Pattern[str], BlobSerializationOptions]


def _options(op: HostOp) -> list[Option]:
    """Return the argument ``options``."""
    given = op.args.raw("options")
    try:
        options = SerializationOptions.FromString(b"" if given is None else given.s)
        return [(re.compile(option.blob_name_regex), option) for option in options.options]
    except DecodeError:
        raise op.error("the argument options must be a serialized SerializationOptions") from None
    except re.error as error:
        raise op.error(f"a regular expression of the argument options is damaged: {error}") from None


def _settings(op: HostOp, name: str, options: Iterable[Option]) -> tuple[int, bool]:
    """Return the chunk size of a blob, and whether it is written as bfloat16: by the first option that matches."""
    default = op.args.integer("chunk_size", default=-1)
    chosen = next((option for pattern, option in options if pattern.fullmatch(name)), BlobSerializationOptions())
    size = chosen.chunk_size if chosen.HasField("chunk_size") else default
    if size < 0:
        size = default if default >= 0 else CHUNK_SIZE
    return size, chosen.float_format == BlobSerializationOptions.FLOAT_BFLOAT16
