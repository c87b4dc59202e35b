"""Load a model from outside: a path, bytes, a ModelProto or an onnx_ir model becomes one that is safe to read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.admission.bodies import check_bodies
from caffe2_backend.admission.external_data import Extent, ExternalDataError, is_external
from caffe2_backend.admission.first_format import complete, is_of_first_format
from caffe2_backend.admission.folders import AdmittedFile, EmbeddedExtent, Folder, map_values, mapped
from caffe2_backend.admission.ir_models import admit_ir
from caffe2_backend.admission.mapped_model import mapped_model
from caffe2_backend.admission.native import check_native
from caffe2_backend.admission.normalize import needs_rewrites, rewrite
from caffe2_backend.admission.own_names import own_names
from caffe2_backend.admission.payloads import check_payloads
from caffe2_backend.admission.scopes import GraphScope, attributes_of, scopes_of
from caffe2_backend.admission.signatures import check_signatures
from caffe2_backend.admission.structure import check_structure, orders_of, reorder
from caffe2_backend.admission.texts import check_texts
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, NetFormatError
from caffe2_bridge.diagnostics import Location as NetLocation
from caffe2_bridge.files.detect import mistaken_for_model
from caffe2_bridge.regular_file import open_regular
from caffe2_bridge.storage import AnyPath, Location, RemotePath, locate
from caffe2_bridge.wire.messages import is_message
from caffe2_frontend.interop.files.strip_weights import SMALL_TENSOR_BYTES

OnnxProto = onnx.ModelProto | bytes | str | os.PathLike[str]
OnnxModel = OnnxProto | ir.Model
_Found = tuple[onnx.TensorProto, Extent | EmbeddedExtent]
_BINARY: Final = "protobuf"  # onnx's name of the format
_HERE: Final = "/"  # a location that no external tensor may have: the model's own file
_LONGEST: Final = 400
_HEAD: Final = 4096


def load_ir(model: OnnxModel, base_dir: Location | None = None) -> ir.Model:
    """Return an onnx_ir model of the caller's own; large weights of the main graph are read when they are used.

    Args:
        model: the model. It is not changed.
        base_dir: the folder of its external data; None: the folder of the file, where ``model`` is a path, and
            otherwise the model may have no external data, except for tensors of onnx_ir that have a folder themselves.

    Raises:
        ConversionError: the model's graphs are not well-formed (codes ``undefined-value``, ``duplicate-value``,
            ``cyclic-graph``, ``malformed-model``, ``nesting``), it names external data outside of the folder, or that
            is not there (``external-data``), or it has sparse tensors that are not constants (``sparse-tensor``).
        NetFormatError, OSError: ``model`` is not an ONNX model, or cannot be read.
    """
    if isinstance(model, ir.Model):
        return admit_ir(model, Folder.of(base_dir).local)
    model = _located(model)
    large = mapped_model(model) if isinstance(model, Path) and _format_of(model) == _BINARY else None
    proto, scopes = _admitted(model if large is None else large.proto)
    if needs_rewrites(scopes):
        if proto is model:
            proto = _copy(proto)
            scopes = scopes_of(proto)
        _refuse(rewrite(scopes))
        scopes = scopes_of(proto)
    _refuse(_sparse(scopes))
    place = replace(_folder(model, base_dir), embedded={} if large is None else large.weights)
    found = _external(scopes, place)
    if found and proto is model:
        proto = _copy(proto)
        scopes = scopes_of(proto)
        found = _external(scopes, place)
    folder = _place(proto, found)
    loaded = _deserialized(proto)
    _find_values(loaded.graph.initializers, place, folder)
    return loaded


def _place(proto: onnx.ModelProto, found: Sequence[_Found]) -> str:
    """Put external values into the tensors; large weights name the files themselves, in the folder that is returned."""
    weights = list(proto.graph.initializer)
    kept = {id(tensor) for tensor in weights}
    folder = ""
    for tensor, extent in found:
        if id(tensor) not in kept or extent.length <= SMALL_TENSOR_BYTES:
            _inline(tensor, extent)
        elif isinstance(extent, Extent):
            _relocate(tensor, extent)
            folder = extent.folder
        else:
            tensor.external_data.add(key="location", value=_HERE)
    return folder


def _find_values(weights: Mapping[str, ir.Value], place: Folder, folder: str) -> None:
    """Let external weights read their values where they are."""
    for name, value in weights.items():
        if isinstance(value.const_value, ir.ExternalTensor):
            if value.const_value.location == _HERE:
                value.const_value = mapped(value.const_value, place.embedded[name])
            else:
                value.const_value.base_dir = folder
    if place.remote is not None:
        map_values(weights)


def load_proto(model: OnnxProto, base_dir: Location | None = None) -> onnx.ModelProto:
    """Return a ModelProto with all values in it; where nothing is amiss and none are external, the given one.

    Arguments and errors are those of :func:`load_ir`; sparse tensors are accepted.
    """
    model = _located(model)
    proto, scopes = _admitted(model)
    place = _folder(model, base_dir)
    found = _external(scopes, place)
    if found and proto is model:
        proto = _copy(proto)
        found = _external(scopes_of(proto), place)
    for tensor, extent in found:
        _inline(tensor, extent)
    return proto


def load_graph(path: Location) -> onnx.ModelProto:
    """Return a ModelProto whose values are not read, and need not be there. Raises as :func:`load_ir`."""
    return _admitted(locate(path), values=False)[0]


def admit_file(path: Location) -> AdmittedFile:
    """Check a file that another library is to read, with its external data. Raises as :func:`load_ir`.

    Returns the path to read: of a remote file that of a local copy, next to those of its external data.
    """
    where = locate(path)
    folder = Folder.of_model(where)
    _, scopes = _admitted(where)
    extents = [extent for _, extent in _external(scopes, folder) if isinstance(extent, Extent)]
    files = {os.path.join(extent.folder, extent.location) for extent in extents}  # noqa: PTH118 - text
    return AdmittedFile(os.fspath(where), where, folder, tuple(sorted(files)))


def _admitted(
    model: onnx.ModelProto | bytes | AnyPath, *, values: bool = True
) -> tuple[onnx.ModelProto, list[GraphScope]]:
    """Return a model with well-formed graphs in topological order; the given one where it is that.

    ``values``: whether its tensors must have the values that their shapes ask for.
    """
    proto = _parsed(model)
    scopes = scopes_of(proto)
    if is_of_first_format(proto, scopes):
        if proto is model:
            proto = _copy(proto)
            scopes = scopes_of(proto)
        complete(proto, scopes)
    _refuse([*check_texts(proto, scopes)])
    _refuse(check_structure(proto, scopes))
    if values:
        _refuse([fault for scope in scopes for fault in check_payloads(scope)])
        _refuse([fault for scope in scopes for fault in check_signatures(proto, scope)])
        _refuse([fault for scope in scopes for fault in check_bodies(scope)])
        _refuse([fault for scope in scopes for fault in check_native(scope)])
    orders, cycles = orders_of(scopes)
    _refuse(cycles)
    if orders and proto is model:
        proto = _copy(proto)
        scopes = scopes_of(proto)
        orders, _ = orders_of(scopes)
    if orders:
        reorder(scopes, orders)
        scopes = scopes_of(proto)
    return proto, scopes


def _deserialized(proto: onnx.ModelProto) -> ir.Model:
    """Return the model as onnx_ir reads it; changes to it do not reach the message.

    Raises ConversionError for what onnx_ir does not accept.
    """
    try:
        loaded = ir.from_proto(proto)
    except Exception as error:  # noqa: BLE001 - onnx_ir raises whatever its constructors do
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        location = NetLocation(proto.graph.name or "graph")
        reason = f"the model cannot be read: {type(cause).__name__}: {cause}"[:_LONGEST]
        raise ConversionError([Diagnostic("malformed-model", reason, location)]) from None
    own_names(loaded)
    return loaded


def _parsed(model: onnx.ModelProto | bytes | AnyPath) -> onnx.ModelProto:
    source = str(model) if isinstance(model, Path | RemotePath) else ""
    head = model[:_HEAD] if isinstance(model, bytes) else b"protobuf"
    try:
        if isinstance(model, bytes):
            proto = onnx.ModelProto.FromString(model)
        elif isinstance(model, Path | RemotePath):
            with open_regular(model) as file:
                head = file.read(_HEAD)
                file.seek(0)
                proto = onnx.load(file, _format_of(model), load_external_data=False)  # noqa: TID251 - the one reader of files
        else:
            proto = model
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - protobuf's and onnx's parsers of bytes, JSON and text raise many
        raise NetFormatError(f"not an ONNX model: {_damage(model, head, error)}", source) from None
    if not isinstance(proto, onnx.ModelProto):
        hint = ": make a model of it, by caffe2_bridge.Model.of(net, init_net)" if is_message(proto, "NetDef") else ""
        raise NetFormatError(f"expected an ONNX model, got {type(proto).__name__}{hint}", source)
    if not proto.HasField("graph"):
        reason = mistaken_for_model(head) or "it has no graph"
        raise NetFormatError(f"not an ONNX model: {reason}", source)
    return proto


def _damage(model: onnx.ModelProto | bytes | AnyPath, head: bytes, error: Exception) -> str:
    """Return why a model could not be parsed, in a sentence of this project: parsers name their own message types."""
    mistaken = mistaken_for_model(head)
    if mistaken is not None:
        return mistaken
    if isinstance(model, Path | RemotePath) and _format_of(model) != _BINARY:
        line = getattr(error, "GetLine", lambda: None)()
        where = "" if line is None else f" in line {line}"
        return f"the text cannot be parsed as the format {_format_of(model)!r}{where}"
    what = "the bytes are" if isinstance(model, bytes) else "the file is"
    return f"{what} damaged or incomplete, or of another format"


def _format_of(path: AnyPath) -> str:
    """Return the format of a model that is named after it."""
    return onnx.serialization.registry.get_format_from_file_extension(path.suffix) or _BINARY


def _external(scopes: Sequence[GraphScope], folder: Folder) -> list[_Found]:
    """Return the external tensors of a model, and where their values are. Raises ConversionError."""
    found, faults = [], []
    for scope in scopes:
        for tensor in scope.tensors:
            if is_external(tensor.proto):
                try:
                    found.append((tensor.proto, folder.extent_of(tensor.proto)))
                except ExternalDataError as error:
                    faults.append(_fault(tensor.what, error, scope.at(tensor.node)))
    _refuse(faults)
    return found


def _fault(what: str, error: ExternalDataError, location: NetLocation) -> Diagnostic:
    return Diagnostic("external-data", f"external data of {what}: {error}", location, hint=error.hint)


def _sparse(scopes: Sequence[GraphScope]) -> Iterator[Diagnostic]:
    for scope in scopes:
        for index, attribute in attributes_of(scope):
            if index is not None and (attribute.HasField("sparse_tensor") or attribute.sparse_tensors):
                reason = f"attribute {attribute.name!r} must not be sparse"
                yield Diagnostic("sparse-tensor", reason, scope.at(index), hint="store it as a dense tensor")


def _inline(tensor: onnx.TensorProto, extent: Extent | EmbeddedExtent) -> None:
    """Put the values into the tensor."""
    try:
        data = extent.read()
    except ExternalDataError as error:  # what was there a moment ago
        raise ConversionError([_fault(f"tensor {tensor.name!r}", error, NetLocation())]) from None
    tensor.ClearField("data_location")
    del tensor.external_data[:]
    tensor.raw_data = data


def _relocate(tensor: onnx.TensorProto, extent: Extent) -> None:
    """Name the file itself, without the links on the way to it."""
    del tensor.external_data[:]
    for key in ("location", "offset", "length"):
        tensor.external_data.add(key=key, value=str(getattr(extent, key)))


def _located(model: OnnxProto) -> onnx.ModelProto | bytes | AnyPath:
    return locate(model) if isinstance(model, str | os.PathLike) else model


def _folder(model: onnx.ModelProto | bytes | AnyPath, base_dir: Location | None) -> Folder:
    if base_dir is None and isinstance(model, Path | RemotePath):
        return Folder.of_model(model)
    return Folder.of(base_dir)


def _copy(proto: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(proto)
    return copied


def _refuse(findings: Iterator[Diagnostic] | Sequence[Diagnostic]) -> None:
    found = tuple(findings)
    if found:
        raise ConversionError(found)
