"""Read the databases that `Load` operators of an init net name, and make their tensors parameters.

A net names the path of a database on the machine that wrote it. It is searched in one folder, that of the net or one
that the user gives: the path itself, then without its first parts, down to the name of the file. Nothing outside of
the folder is opened, and only regular files are, whatever the path or a symbolic link says.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic, Location, NetFormatError, Severity
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.files.blobs.stored_indices import read_blobs
from caffe2_bridge.files.databases import leveldb_file, lmdb_file
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, OperatorDef
from caffe2_bridge.storage import AnyPath, RemotePath

Open = Callable[[AnyPath], Mapping[str, Blob]]

_READER: Final = "CreateDB"


@dataclass(frozen=True)
class _Databases:
    """The folder in which the databases of a net are searched."""

    folder: AnyPath

    def find(self, stated: str) -> AnyPath | None:
        """Return the file, or folder of an LMDB or LevelDB database, that a net means; None if the folder lacks it."""
        parts = [part for part in PurePosixPath(stated.replace("\\", "/")).parts if part not in ("/", ".")]
        while ".." in parts:
            parts = parts[parts.index("..") + 1 :]
        for start in range(len(parts)):
            found = (
                _remote(self.folder, parts[start:])
                if isinstance(self.folder, RemotePath)
                else _local(self.folder, parts[start:])
            )
            if found is not None:
                return found
        return None


def _remote(folder: RemotePath, parts: Sequence[str]) -> RemotePath | None:
    """Return a file or database's folder at a path in a remote folder; None if it is not there."""
    with suppress(ValueError):  # not a path inside of the folder
        path = folder.joinpath(*parts)
        if path.is_file() or (path.is_dir() and _holds_database(path)):
            return path
    return None


def _local(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return a regular file, or a database's folder whose files are all regular and inside of ``folder``, or None."""
    root = folder.resolve()
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root) or path == root:
        return None
    if not path.is_dir():
        return path if path.is_file() else None
    files = [file.resolve() for file in path.iterdir()] if _holds_database(path) else []
    return path if files and all(file.is_relative_to(root) and file.is_file() for file in files) else None


def _holds_database(folder: AnyPath) -> bool:
    return (folder / lmdb_file.DATA).is_file() or leveldb_file.is_leveldb(folder)


def read_loads(init: InitNet, folder: AnyPath, open_database: Open) -> InitNet:
    """Read the databases that the init net loads from into its parameters.

    Args:
        init: the init net.
        folder: the folder to search for the databases.
        open_database: reads the blobs of a database.

    Returns:
        The init net without the operators whose databases were found, and a note for each; a `Load` whose database
        is not in the folder stays.

    Raises:
        NetFormatError: a database is damaged, or lacks a blob; or the arguments of a `Load` contradict each other.
    """
    if not any(op.type == "Load" for op in init.rest):
        return init
    databases = _Databases(folder)
    readers = {op.outputs[0]: op for op in init.rest if op.type == _READER and op.outputs}
    net = init.net
    parameters = dict(init.parameters)
    rest: list[OpView] = []
    notes = []
    for op in init.rest:
        location = Location(net.name or "init", op.index, op.type, op.name)
        try:
            paths = _paths(op, readers, databases) if op.type == "Load" else None
            loaded, made = ({}, []) if paths is None else _load(op, paths, open_database)
        except (ArgumentError, NetFormatError) as error:
            reason = error.reason if isinstance(error, NetFormatError) else str(error)
            raise NetFormatError(f"{location}: {reason}", getattr(error, "source", "")) from None
        if paths is None or _touched(rest, loaded):
            rest.append(op)
            continue
        # What load_all reads undeclared may be a blob that a later operator fills.
        later = {name for other in net.op[op.index + 1 :] for name in other.output}.difference(op.outputs)
        parameters.update((name, parameter) for name, parameter in loaded.items() if name not in later)
        rest += [OpView(each, op.index) for each in made]
        files = ", ".join(path.name for path in paths)
        reason = f"{len(loaded)} blobs are read from {files}, in the folder {databases.folder}"
        notes.append(Diagnostic("database-read", reason, location, Severity.NOTE))
    return _completed(init, parameters, rest, notes) if notes else init


def init_of_blobs(blobs: Mapping[str, Blob]) -> InitNet:
    """Return an init net with the tensors and the indices of a database; other blobs, such as nets, are left out."""
    parameters: dict[str, Parameter] = {}
    operators: list[OperatorDef] = []
    for name, blob in blobs.items():
        with suppress(NetFormatError):
            found, made = read_blobs({name: blob})
            parameters |= found
            operators += made
    rest = tuple(map(OpView, operators, itertools.count()))
    return InitNet(MappingProxyType(parameters), rest, serialized=lambda: fill_net(parameters.values(), operators))


def _touched(rest: Iterable[OpView], names: Mapping[str, Parameter]) -> bool:
    """Return whether operators, which run after all parameters are set, read or write blobs that are loaded later."""
    return any(not names.keys().isdisjoint((*op.inputs, *op.outputs)) for op in rest)


def _completed(
    init: InitNet, parameters: Mapping[str, Parameter], rest: list[OpView], notes: list[Diagnostic]
) -> InitNet:
    """Return the init net with these parameters and other operators; readers that no operator uses are left out."""
    read = {name for op in rest for name in op.inputs}
    kept = tuple(op for op in rest if op.type != _READER or not read.isdisjoint(op.outputs))

    def serialized() -> Iterator[bytes | memoryview]:
        yield from fill_net(parameters.values(), (op.proto for op in kept))

    return dataclasses.replace(
        init,
        parameters=MappingProxyType(parameters),
        rest=kept,
        findings=(*init.findings, *notes),
        serialized=serialized,
    )


def _paths(op: OpView, readers: Mapping[str, OpView], databases: _Databases) -> list[AnyPath] | None:
    """Return the databases of a `Load`: those of its readers, or those in its arguments; None if one is not found."""
    if op.inputs:
        if not all(name in readers for name in op.inputs):
            return None
        stated = [readers[name].args.text("db") for name in op.inputs]
    else:
        single, several = op.args.text("db", default=""), op.args.texts("dbs", default=())
        if bool(single) == bool(several):
            raise NetFormatError("the operator must have one of the arguments db and dbs")
        stated = [single] if single else list(several)
    found = [databases.find(path) for path in stated]
    paths = [path for path in found if path is not None]
    return paths if len(paths) == len(found) else None


@dataclass(frozen=True)
class _Names:
    """How `Load` renames the blobs of a database: a prefix is removed, with all before it, and another added."""

    strip: str
    add: str

    def __call__(self, key: str) -> str:
        return self.add + (key.partition(self.strip)[2] if self.strip and self.strip in key else key)


def _load(
    op: OpView, paths: Iterable[AnyPath], open_database: Open
) -> tuple[Mapping[str, Parameter], Sequence[OperatorDef]]:
    """Load(reader...; db, dbs, db_type, source_blob_names=[], load_all=0, keep_device=0, ...) -> blobs.

    A name may be in one of the databases only. ``source_blob_names`` are the names of the outputs in the database.
    """
    args = op.args
    load_all = args.flag("load_all", default=False)
    keep_device = args.flag("keep_device", default=False)
    allow_incomplete = args.flag("allow_incomplete", default=False)
    sources = args.texts("source_blob_names", default=())
    strip = args.text("strip_prefix", default="")
    if sources and (len(sources) != len(op.outputs) or strip or load_all):
        raise NetFormatError(
            "source_blob_names must have a name for each output, and excludes strip_prefix and load_all"
        )
    if len({*(sources or op.outputs)}) != len(op.outputs):
        raise NetFormatError("each blob must be loaded once")
    stored: dict[str, Blob] = {}
    names = _Names(strip, args.text("add_prefix", default=""))
    wanted = dict(zip(sources or op.outputs, op.outputs, strict=True))
    for path in paths:
        blobs = {names(key): blob for key, blob in open_database(path).items()}
        repeated = [key for key in blobs if key in stored and (load_all or key in wanted)]
        if repeated:
            raise NetFormatError(f"blob {repeated[0]!r} is in several of the databases", str(path))
        stored.update(blobs)
    missing = [name for name in wanted if name not in stored]
    if missing and not (allow_incomplete and not load_all):
        raise NetFormatError(
            f"the databases lack {len(missing)} of {len(wanted)} blobs to load: {', '.join(missing[:5])}"
        )
    if load_all:
        wanted = {key: key for key in stored}
    device = op.proto.device_option if op.proto.HasField("device_option") else None
    found, made = read_blobs({output: stored[source] for source, output in wanted.items() if source in stored})
    return {name: _renamed(each, name, device, keep_device=keep_device) for name, each in found.items()}, made


def _renamed(parameter: Parameter, name: str, device: DeviceOption | None, *, keep_device: bool) -> Parameter:
    return dataclasses.replace(parameter, name=name, device=parameter.device if keep_device else device)
