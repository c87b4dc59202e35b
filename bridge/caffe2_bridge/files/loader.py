"""Load models from files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError

from caffe2_bridge import wire
from caffe2_bridge.bounds import current_limits, hint_of
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import init_search, pairing, text
from caffe2_bridge.files.blobs.records import Blob
from caffe2_bridge.files.databases import leveldb_file, lmdb_file, minidb
from caffe2_bridge.files.databases.loads import init_of_blobs, read_loads
from caffe2_bridge.files.detect import WITHOUT_NET, Format, detect
from caffe2_bridge.files.npz import read_npz
from caffe2_bridge.files.open_files import open_file, open_together
from caffe2_bridge.files.pickles.checkpoint import init_of_arrays, init_of_checkpoint
from caffe2_bridge.files.plan_files import read_plan
from caffe2_bridge.files.predictor_db import read_meta, read_predictor
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.names import require_text_in_plan
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, PlanDef
from caffe2_bridge.proto.metanet_pb2 import MetaNetDef
from caffe2_bridge.storage import AnyPath, Location, RemotePath, journal, locate
from caffe2_bridge.wire.messages import parse_message

_ATTEMPTS: Final = 8  # to list a folder that saves replace
_MOST_DOWNLOADS: Final = 20  # of a remote folder, to detect what its files are


def load(
    path: Location,
    init: Location | None = None,
    *,
    predictor: str | None = None,
    databases: Location | None = None,
) -> Model:
    """Load the model in a folder or file. The format is detected by content, not by name.

    Args:
        path: a path or URL (:mod:`caffe2_bridge.storage`): a folder with a predict net and an init net
            (``predict_net`` and ``init_net``, ``X_predict`` and ``X_init``, ``model`` and ``model_init``; .pb goes
            before .pbtxt), a predict net in binary or text, a plan, or a predictor database: minidb, LMDB or LevelDB.
        init: the init net of the predict net, a database of its parameters, or a checkpoint: a pickled dict of names
            to arrays (.pkl), of which nothing is run, or an .npz file. By default it is searched in the folder of the
            predict net: by name, or else the one file that fills all parameters of the net, but for an .npz file.
        predictor: the name of the predictor, for a database that holds several.
        databases: the folder with the databases that the init net loads parameters from; by default its own folder.
            Nothing outside of that folder is read.

    Large files are mapped, and parameters are decoded on demand: do not change a file in place while its model is in
    use. Replacing the file, as :func:`save` does, is safe.

    Raises:
        NetFormatError: a file cannot be read or has an unsupported or invalid content; the message names the file.
        BridgeError: a database requires a package that is not installed.
    """
    where, kind = _find(locate(path))
    if databases is not None and isinstance(folder := locate(databases), Path) and not folder.is_dir():
        raise NetFormatError("the folder of databases does not exist", str(folder))
    if kind in _DATABASES:
        if init is not None:
            raise NetFormatError("a predictor database holds its own parameters: omit the init net", str(where))
        with naming(where):
            return read_predictor(_DATABASES[kind](where), str(where), predictor)
    if predictor is not None:
        raise NetFormatError(
            f"this is {kind}, and only predictor databases have named predictors: omit the predictor", str(where)
        )
    if kind in _PLANS:
        return _model_of_plan(where, init, databases)
    if kind not in _NETS:
        raise NetFormatError(
            f"this is {kind}, which has parameters and no net: load(net, init=...), --init", str(where)
        )
    beside = locate(init) if init is not None else pairing.init_net_beside(where)
    span, init_span = open_together(where, beside)
    net = _NETS[kind](span, str(where))
    model = Model.of(net, source=str(where))
    if beside is None or init_span is None:
        return init_search.with_init_net_found(model, _reader(databases, model.inputs))
    return Model.of(net, _read_init(init_span, beside, databases, model.inputs), str(where))


def load_init_net(path: Location, databases: Location | None = None, *, optimizer_state: bool = False) -> InitNet:
    """Load the init net in a file, binary or text, and the databases that it loads parameters from.

    The file may be a database of tensors itself, as Caffe2's operator `Save` writes them, a checkpoint: a pickled
    dict of names to arrays, of which nothing is run, or an .npz file of arrays.

    Args:
        path: the file.
        databases: the folder with the databases; by default that of the file.
        optimizer_state: whether the momentum of parameters (``*_momentum``) and the learning rate (``lr``) of a
            checkpoint are read, too. :func:`load` reads those that the net reads.

    Raises:
        NetFormatError: the file is not a net, a database is damaged or lacks a blob, or a pickle is damaged or asks for
            anything but dicts, lists, tuples, text, numbers and NumPy arrays.
        BridgeError: a database requires a package that is not installed.
    """
    where = locate(path)
    return _read_init(open_file(where), where, databases, None if optimizer_state else ())


def _read_init(span: wire.Span, path: AnyPath, databases: Location | None, wanted: Collection[str] | None) -> InitNet:
    if not len(span):
        return InitNet()  # no bytes are those of a NetDef without operators
    with naming(path):
        found = detect(span)
        if found in _DATABASES:
            return init_of_blobs(_DATABASES[found](path))
        if found is Format.PICKLE:
            return init_of_checkpoint(span, wanted)
        if found is Format.NPZ:
            return init_of_arrays(read_npz(path))
        if found not in _NETS:
            raise NetFormatError(f"the init net must be a net, but this is {found}", str(path))
        init = read_init_net(span if found is Format.NET else _net_text(span, str(path)))
        return _with_databases(init, path, databases)


def _reader(databases: Location | None, wanted: Collection[str]) -> Callable[[AnyPath], InitNet]:
    return lambda path: _read_init(open_file(path), path, databases, wanted)


def _with_databases(init: InitNet, net: AnyPath, databases: Location | None) -> InitNet:
    return read_loads(init, net.parent if databases is None else locate(databases), _database)


def _database(path: AnyPath) -> Mapping[str, Blob]:
    """Read the blobs of a database of any format. Raises NetFormatError if it is damaged or not a database."""
    if path.is_dir():
        return _DATABASES[Format.LEVELDB if leveldb_file.is_leveldb(path) else Format.LMDB](path)
    _, found = _open(path)
    if found not in _DATABASES:
        raise NetFormatError(f"the file must be a database, but this is {found}", str(path))
    with naming(path):
        return _DATABASES[found](path)


def load_meta(path: Location) -> MetaNetDef:
    """Load the nets in a predictor database, unchanged, and the roles of their blobs.

    Raises NetFormatError if the path is not a predictor database.
    """
    where = locate(path)
    stored = _database(where)
    with naming(where):
        return read_meta(stored)


def load_plan(path: Location) -> PlanDef:
    """Load the plan in a file, binary or text, unchanged. Raises NetFormatError if the file is not a plan."""
    where = locate(path)
    span, found = _open(where)
    if found not in _PLANS:
        raise NetFormatError(f"the file must be a plan, but this is {found}", str(where))
    return _PLANS[found](span, str(where))


def _model_of_plan(path: AnyPath, init: Location | None, databases: Location | None) -> Model:
    plan = load_plan(path)
    with naming(path):
        planned = read_plan(plan)
        if planned.init is None:
            beside = locate(init) if init is not None else pairing.init_net_beside(path)
            model = Model.of(planned.predict, source=str(path))
            read = _reader(databases, model.inputs)
            if beside is None:
                return init_search.with_init_net_found(model, read)
            return Model.of(planned.predict, read(beside), str(path))
        if init is not None:
            raise NetFormatError(f"the plan's net {planned.init.name!r} writes its parameters: omit the init net")
        return Model.of(planned.predict, _with_databases(read_init_net(planned.init), path, databases), str(path))


def _net(span: wire.Span, source: str) -> NetDef:
    return as_net_def(span.tobytes(), source)


def _net_text(span: wire.Span, source: str) -> NetDef:
    return text.parse(_decoded(span, source), NetDef, source)


def _decoded(span: wire.Span, source: str) -> str:
    allowed = current_limits().text_bytes
    if len(span) > allowed:
        reason = f"the text has {len(span):,} bytes; {allowed:,} are allowed"
        raise NetFormatError(f"{reason} ({hint_of('text_bytes', len(span))})", source)
    return text.decode(span.tobytes(), source)


def _plan(span: wire.Span, source: str) -> PlanDef:
    try:
        plan = parse_message(PlanDef, span.tobytes())
    except DecodeError as error:
        raise NetFormatError(f"the PlanDef is damaged: {error}", source) from None
    with naming(source):
        require_text_in_plan(plan)
    return plan


def _plan_text(span: wire.Span, source: str) -> PlanDef:
    return text.parse(_decoded(span, source), PlanDef, source)


def _copied(read: Callable[[Path], Mapping[str, Blob]]) -> Callable[[AnyPath], Mapping[str, Blob]]:
    """Make a reader of local databases read remote ones, too."""

    def read_any(path: AnyPath) -> Mapping[str, Blob]:
        local = Path(path)
        try:
            return read(local)
        except NetFormatError as error:
            raise NetFormatError(error.reason, str(path) if error.source == str(local) else error.source) from None

    return read_any


def _minidb(path: AnyPath) -> Mapping[str, Blob]:
    return minidb.blobs(open_file(path))


_NETS: Final = MappingProxyType[Format, Callable[[wire.Span, str], NetDef]](
    {Format.NET: _net, Format.NET_TEXT: _net_text}
)
_PLANS: Final = MappingProxyType[Format, Callable[[wire.Span, str], PlanDef]](
    {Format.PLAN: _plan, Format.PLAN_TEXT: _plan_text}
)
_DATABASES: Final = MappingProxyType[Format, Callable[[AnyPath], Mapping[str, Blob]]](
    {Format.MINIDB: _minidb, Format.LMDB: _copied(lmdb_file.blobs), Format.LEVELDB: _copied(leveldb_file.blobs)}
)


def _open(path: AnyPath) -> tuple[wire.Span, Format]:
    span = open_file(path)
    with naming(path):
        return span, detect(span)


class naming:  # noqa: N801 - a context manager, used as a verb
    """Add the path to the NetFormatErrors that have none."""

    def __init__(self, path: AnyPath | str) -> None:
        self._path = str(path)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, NetFormatError) and not error.source:
            raise NetFormatError(error.reason, self._path) from None


def _find(path: AnyPath) -> tuple[AnyPath, Format]:
    """Return the file, or the folder of a database, that holds the model or its predict net, and its format."""
    folder = journal.current(path) if isinstance(path, Path) else path
    if not folder.is_dir():
        return path, _open(path)[1]
    path = folder
    for _ in range(_ATTEMPTS):
        there = _identity(path)
        try:
            found = _in_folder(path)
        except OSError as error:
            raise NetFormatError(f"cannot be read: {error.strerror or error}", str(path)) from None
        if found is not None:
            return found
        if _identity(path) == there:  # else a save put another folder here, and the one that was listed is gone
            break
    raise NetFormatError("the folder has no net", str(path))


def _identity(path: AnyPath) -> tuple[int, int] | None:
    """Return what tells a folder from another one at its path; None for a remote one."""
    return None if isinstance(path, RemotePath) else journal.identity(path)


def _in_folder(path: AnyPath) -> tuple[AnyPath, Format] | None:
    """Return the file of a folder that holds a net, or the folder itself if it is a database; None without either.

    Raises OSError if the folder cannot be listed.
    """
    found = pairing.predict_net_in(path)
    if found is not None:
        return found, _open(found)[1]
    if leveldb_file.is_leveldb(path):
        return path, Format.LEVELDB
    files = pairing.files_in(path)
    if isinstance(path, RemotePath) and len(files) > _MOST_DOWNLOADS:
        raise NetFormatError(
            f"the folder has {len(files)} files, none named like a net; give the path of one", str(path)
        )
    models = [(file, kind) for file in files if (kind := _kind(file)) is not None]
    if len(models) > 1:
        raise NetFormatError(
            f"the folder has several nets: {', '.join(file.name for file, _ in models)}; give the path of one",
            str(path),
        )
    return models[0] if models else None


def _kind(path: AnyPath) -> Format | None:
    try:
        found = _open(path)[1]
    except NetFormatError:
        return None
    return None if found in WITHOUT_NET else found
