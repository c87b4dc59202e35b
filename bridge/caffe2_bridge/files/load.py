"""Models from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Final

from google.protobuf.message import DecodeError

from caffe2_bridge import wire
from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import naming, text
from caffe2_bridge.files.detect import Format, detect
from caffe2_bridge.files.predictor import net_of_plan, read_predictor
from caffe2_bridge.init_net import InitNet, read_init_net
from caffe2_bridge.model import Model
from caffe2_bridge.names import require_text_in_net
from caffe2_bridge.net import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, PlanDef


def load(path: str | os.PathLike[str], init: str | os.PathLike[str] | None = None) -> Model:
    """The model in a folder or file, whatever it is called: what it is, its content says.

    Args:
        path: a folder with a predict net and an init net (``predict_net`` and ``init_net``, ``X_predict`` and
            ``X_init``, ``model`` and ``model_init``; .pb goes before .pbtxt), a predict net in binary or text, or a
            predictor database in minidb form.
        init: the init net that belongs to the predict net. Without it, it is looked for beside that, by name.

    Large files are mapped, and parameters are decoded when they are asked for: a file is not to be changed in place
    while its model is in use (to replace it, as :func:`save` does, is harmless).

    Raises:
        NetFormatError: a file cannot be read, or is not what it should be; names it and says why.
    """
    where = Path(path)
    if where.is_dir():
        where = _model_in(where)
    span, found = _open(where)
    if found is Format.MINIDB:
        if init is not None:
            raise NetFormatError("a predictor database holds its parameters: no init net can be given", str(where))
        with _naming(where):
            return read_predictor(span, str(where))
    predict_net = _NETS[found](span, str(where))
    beside = Path(init) if init is not None else naming.init_net_beside(where)
    return Model.of(predict_net, None if beside is None else load_init_net(beside), str(where))


def load_init_net(path: str | os.PathLike[str]) -> InitNet:
    """The init net in a file, binary or text. Raises NetFormatError where it holds none."""
    where = Path(path)
    span, found = _open(where)
    with _naming(where):
        if found is Format.NET:
            return read_init_net(span)
        if found is Format.NET_TEXT:
            return read_init_net(_net_text(span, str(where)))
    raise NetFormatError(f"an init net is expected, and this is {found}", str(where))


def _net(span: wire.Span, source: str) -> NetDef:
    net = as_net_def(span.tobytes(), source)
    with _naming(Path(source)):
        require_text_in_net(net)
    return net


def _net_text(span: wire.Span, source: str) -> NetDef:
    return text.parse(text.decode(span.tobytes(), source), NetDef(), source)


def _plan(span: wire.Span, source: str) -> NetDef:
    try:
        plan = PlanDef.FromString(span.tobytes())
    except DecodeError as error:
        raise NetFormatError(f"damaged PlanDef: {error}", source) from None
    with _naming(Path(source)):
        net = net_of_plan(plan)
        require_text_in_net(net)
        return net


def _plan_text(span: wire.Span, source: str) -> NetDef:
    plan = text.parse(text.decode(span.tobytes(), source), PlanDef(), source)
    with _naming(Path(source)):
        return net_of_plan(plan)


# How a file of each format gives a predict net. A database gives a whole model, above.
_NETS: Final = MappingProxyType[Format, Callable[[wire.Span, str], NetDef]](
    {
        Format.NET: _net,
        Format.NET_TEXT: _net_text,
        Format.PLAN: _plan,
        Format.PLAN_TEXT: _plan_text,
    }
)


def _open(path: Path) -> tuple[wire.Span, Format]:
    try:
        span = wire.Buffer.of_file(os.fspath(path)).span()
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(path)) from None
    with _naming(path):
        return span, detect(span)


class _naming:  # noqa: N801 - a context manager, used as a verb
    """Puts the file's name into errors that do not have one."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, NetFormatError) and not error.source:
            raise NetFormatError(error.reason, self._path) from None


def _model_in(folder: Path) -> Path:
    """The file of a folder that holds its model, or its predict net."""
    try:
        found = naming.predict_net_in(folder)
    except OSError as error:
        raise NetFormatError(f"cannot be read: {error.strerror or error}", str(folder)) from None
    if found is not None:
        return found
    if (folder / "CURRENT").is_file() and any(folder.glob("MANIFEST-*")):
        raise NetFormatError("this is a LevelDB database: of databases only minidb is read", str(folder))
    if (folder / "data.mdb").is_file():
        raise NetFormatError("this is an LMDB database: of databases only minidb is read", str(folder))
    models = [file for file in sorted(folder.iterdir()) if file.is_file() and _is_model(file)]
    if len(models) == 1:
        return models[0]
    if models:
        raise NetFormatError(f"several nets are in the folder: {', '.join(file.name for file in models)}", str(folder))
    raise NetFormatError("no net is in the folder", str(folder))


def _is_model(path: Path) -> bool:
    try:
        _open(path)
    except NetFormatError:
        return False
    return True
