"""Loading blobs from databases: Load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from caffe2_backend.databases import Cursor, DatabaseError, Mode, create_database
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.host.storage.messages import decode_value
from caffe2_backend.runtime.host.storage.readers import HostReader, path_of
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files.blobs.records import SEPARATOR, StoredSize

family = HostFamily("loading")


@dataclass
class _Loaded:
    """The records of a blob: their values, the database, and how many elements are missing."""

    database: int
    contents: list[bytes] = field(default_factory=list)
    missing: int = 0


@family.runs("Load")
def load(op: HostOp) -> None:
    """Load(reader...; db, dbs, db_type, absolute_path, source_blob_names, add_prefix, strip_prefix, ...) -> blobs.

    The blobs are read from the positions of readers, or else from the databases ``dbs`` or ``db``. They are named as
    the outputs, or ``source_blob_names``, after ``strip_prefix`` and what is before it was removed from the names in
    the databases, and ``add_prefix`` added. ``load_all`` loads all blobs, ``allow_incomplete`` those that are there.
    Reading stops when all outputs are loaded.
    """
    everything = op.args.flag("load_all", default=False)
    wanted = _wanted(op, everything=everything)
    found: dict[str, _Loaded] = {}
    for number, cursor in enumerate(_cursors(op)):
        _read(op, number, cursor, None if everything else wanted, found)
    for name, loaded in found.items():
        if loaded.missing:
            raise op.error(f"tensor {name!r} is incomplete: {loaded.missing} elements are missing")
    lacking = [name for name in wanted if name not in found]
    if lacking and (everything or not op.args.flag("allow_incomplete", default=False)):
        raise op.error(f"the databases lack {len(lacking)} of {len(wanted)} blobs: {', '.join(lacking[:5])}")
    for name, loaded in found.items():
        try:
            value = decode_value(name, loaded.contents)
        except NetFormatError as error:
            raise op.error(error.reason) from None
        op.write(name if everything else wanted[name], value)


def _wanted(op: HostOp, *, everything: bool) -> dict[str, str]:
    """Return the outputs by the names that their blobs have in the databases."""
    sources = op.args.texts("source_blob_names", default=())
    if sources and (len(sources) != len(op.outputs) or everything or op.args.text("strip_prefix", default="")):
        raise op.error("source_blob_names must have a name for each output, and excludes strip_prefix and load_all")
    names = sources or op.outputs
    if len(set(names)) != len(names) and not everything:
        raise op.error("each blob must be loaded once")
    return dict(zip(names, op.outputs, strict=True))


def _cursors(op: HostOp) -> Iterator[Cursor]:
    """Yield a cursor on each database."""
    if op.inputs:
        yield from (op.object(index, HostReader).reader.cursor for index in range(len(op.inputs)))
        return
    paths: Sequence[str] = op.args.texts("dbs", default=()) or [op.args.text("db", default="")]
    if not all(paths) or len(set(paths)) != len(paths):
        raise op.error("the argument db, or dbs, must be the paths of different databases")
    for path in paths:
        with op.translating(DatabaseError):
            cursor = create_database(op.args.text("db_type", default=""), path_of(op, path), Mode.READ).cursor()
        yield cursor


def _read(op: HostOp, number: int, cursor: Cursor, wanted: dict[str, str] | None, found: dict[str, _Loaded]) -> None:
    """Read the records of a database; ``wanted`` limits the names, and stops when all are complete."""
    with op.translating(DatabaseError):
        while cursor.valid:
            name = _name(op, cursor.key)
            if wanted is None or name in wanted:
                _add(op, name, cursor.value, found.setdefault(name, _Loaded(number)), number)
                if wanted is not None and len(found) == len(wanted) and not any(b.missing for b in found.values()):
                    return  # and the cursor of a reader stays here
            cursor.next()


def _name(op: HostOp, key: bytes) -> str:
    """Return the name of the blob in a record, as the outputs name it."""
    name = key.decode("utf-8", "replace").partition(SEPARATOR)[0]
    prefix = op.args.text("strip_prefix", default="")
    if prefix and prefix in name:
        name = name.partition(prefix)[2]
    return op.args.text("add_prefix", default="") + name


def _add(op: HostOp, name: str, content: bytes, loaded: _Loaded, number: int) -> None:
    """Add a record to a blob."""
    if loaded.database != number:
        raise op.error(f"blob {name!r} is in several of the databases")
    try:
        size = StoredSize.of(name, content)
    except NetFormatError as error:
        raise op.error(f"the record of blob {name!r} is damaged: {error.reason}") from None
    if not loaded.contents:
        loaded.missing = size.total
    elif not loaded.missing:
        raise op.error(f"blob {name!r} is stored twice")
    loaded.missing -= size.stored
    loaded.contents.append(content)
