"""Writing ONNX files atomically, without the whole model in memory."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined] # protobuf's own varint writer
from google.protobuf.message import DecodeError

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.files import replace
from caffe2_bridge.files.replace import sync
from caffe2_bridge.regular_file import followed, is_utf8, open_regular, require_replaceable
from caffe2_bridge.storage import AnyPath, Location, RemotePath, StorageError, locate, published
from caffe2_bridge.storage.temporaries import folder_locked, remove_abandoned, temporary_folder
from caffe2_frontend.interop.files.serialize import own_errors, to_proto

# Protobuf limits a message to 2 GB. The weights of larger models are stored in a separate file.
SINGLE_FILE_LIMIT: Final = 2_000_000_000
# Tensors of more bytes are written to the separate file.
_EXTERNAL_TENSOR: Final = 256
_LENGTH_DELIMITED: Final = 2
_LONGEST_STEM: Final = 240  # bytes of the separate file's name before its suffixes; file systems allow 255 in all
_NAMES: Final = 9  # of the separate file
# The bytes of a tensor that is read on its own when a model becomes a protobuf.
_LARGE: Final = 1 << 20

P = TypeVar("P", Path, RemotePath, AnyPath)


def save_onnx(
    model: ir.Model | onnx.ModelProto,
    path: Location,
    *,
    external_data_above: int = SINGLE_FILE_LIMIT,
    external_data: int | None = None,
) -> list[AnyPath]:
    """Write a model to a file. Weights are read from where they are stored and written one by one.

    Args:
        model: the model, as ``convert`` or ``to_onnx`` returns it.
        path: the file to write, or its URL (:mod:`caffe2_bridge.storage`). An existing one is replaced when the
            new one is complete.
        external_data_above: if the weights have more bytes than this, they are written to ``<path>.data`` (ONNX
            external data), or to ``<path>.2.data`` (``.3.data`` ...) where that file is there already. Such a file of
            the model that is replaced is removed then. A digest stands for a name that is too long, not UTF-8, or has
            two dots in a row, which onnx refuses there. A symbolic link that leads out of its folder is replaced.
        external_data: if given, tensors with more bytes than this are written there, whatever the weights have in all.

    Returns:
        The files written.

    Raises:
        NetFormatError: the model is not an ONNX model.
        OSError: the file cannot be written; an existing one is unchanged.
    """
    if isinstance(model, onnx.ModelProto):
        model = ir.from_proto(model)
    if not isinstance(model, ir.Model):
        raise NetFormatError(f"expected an ONNX model, got {type(model).__name__}")
    target = locate(path)
    tensors = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    sizes = [tensor.nbytes for tensor in tensors if tensor.dtype != ir.DataType.STRING]
    threshold = _EXTERNAL_TENSOR if external_data is None else external_data
    if sum(size for size in sizes if external_data is None or size <= threshold) > external_data_above:
        return _save_parts(model, target, min(threshold, _EXTERNAL_TENSOR))
    if external_data is not None and any(size > threshold for size in sizes):
        return _save_parts(model, target, threshold)
    old = _own_data(followed(target) if isinstance(target, Path) else target)
    with replacing(target) as file:
        _write_model(model, file)
    _remove(old, target)
    return [target]


def model_proto(model: ir.Model) -> onnx.ModelProto:
    """Return the model as a protobuf, like ``ir.to_proto``, with few weights in memory twice.

    Weights are read where they are stored, the largest first: its bytes are there twice while nothing else is.
    """
    large = [value for value in model.graph.initializers.values() if _is_large(value.const_value)]
    tensors = {str(value.name): value.const_value for value in large}
    try:
        for value in large:
            value.const_value = ir.Tensor(np.zeros(0, np.uint8), name=value.name)
        proto = to_proto(model)
    finally:
        for value in large:
            value.const_value = tensors[str(value.name)]
    heads = {tensor.name: tensor for tensor in proto.graph.initializer if tensor.name in tensors}
    for name, tensor in sorted(tensors.items(), key=lambda item: -_bytes(item[1])):
        assert tensor is not None
        heads[name].data_type = int(tensor.dtype)
        heads[name].dims[:] = tensor.shape.numpy()
        heads[name].raw_data = tensor.tobytes()
    return proto


def _is_large(tensor: ir.TensorProtocol | None) -> bool:
    return isinstance(tensor, ir.LazyTensor) and tensor.dtype != ir.DataType.STRING and _bytes(tensor) > _LARGE


def _bytes(tensor: ir.TensorProtocol | None) -> int:
    return 0 if tensor is None else tensor.nbytes


@contextmanager
def replacing(target: AnyPath) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` when it is complete. Raises OSError, which names ``target``."""
    opened = replace.replacing(target)
    with _naming(target):
        file = opened.__enter__()
    try:
        yield file
    except BaseException as error:
        opened.__exit__(type(error), error, error.__traceback__)
        raise
    with _naming(target):
        opened.__exit__(None, None, None)


@contextmanager
def _naming(target: AnyPath) -> Iterator[None]:
    """Raise errors that name the target, not the temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or isinstance(error, StorageError):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from None


def _save_parts(model: ir.Model, target: AnyPath, threshold: int) -> list[AnyPath]:
    """Write model and weights; weights of more bytes than ``threshold`` go to the second file."""
    if isinstance(target, Path):
        # Readers look for the weights next to the path that they open: only a link within the folder can stay.
        real = followed(target)
        is_within = real.parent == Path(os.path.realpath(target.parent))
        return [target, _save_with_data(model, real if is_within else target, threshold)]
    # The existing model reads its weights until it is replaced by one with other weights.
    old = _own_data(target)
    data = _next_data_path(target, old)
    with published(target) as local, own_errors():
        ir.save(model, local, external_data=data.name, size_threshold_bytes=threshold)
    _remove(old, target)
    return [target, data]


def _save_with_data(model: ir.Model, target: Path, threshold: int) -> Path:
    """Write model and weights into a temporary folder next to the target, then move both; return where the weights are.

    Weights of more bytes than ``threshold`` go to the second file, which is moved first. It never replaces the one that
    the existing model reads, so that a reader finds the old model with its weights until the new one, with its own,
    replaces it.
    """
    with _naming(target):
        require_replaceable(target)
        remove_abandoned(target)
        with folder_locked(target.parent), temporary_folder(target) as folder:
            old = _own_data(target)
            data = _next_data_path(target, old)
            require_replaceable(data)
            with own_errors():
                ir.save(model, folder / target.name, external_data=data.name, size_threshold_bytes=threshold)
            sync(folder / target.name, folder / data.name)
            _keep_mode(target, folder / target.name)
            (folder / data.name).replace(data)
            try:
                (folder / target.name).replace(target)
            except OSError:
                data.unlink(missing_ok=True)
                raise
            _remove(old, target)
    return data


def _next_data_path(target: P, old: Sequence[P]) -> P:
    """Return the file after the last one that the existing model reads, of those that are not there.

    A reader that opened the model, and opens its weights several saves later, finds them removed, not those of another
    model: the names take turns. What lies there already may be the weights of a model that was renamed. Raises OSError
    if no name is free.
    """
    paths = _data_paths(target)
    last = max((number for number, path in enumerate(paths) if path in old), default=-1)
    for path in paths[last + 1 :] + paths[: last + 1]:
        if not path.exists():
            return path
    raise OSError(errno.EEXIST, f"all files for its weights are there already, {paths[0].name} to {paths[-1].name}")


def _data_paths(target: P) -> list[P]:
    """Return the names that the file with the weights may have."""
    suffixes = ["", *(f".{number}" for number in range(2, _NAMES + 1))]
    stem = _data_stem(target.name)
    return [target.with_name(f"{stem}{suffix}.data") for suffix in suffixes]


def _own_data(target: P) -> list[P]:
    """Return the files with the weights of the existing model, and of no other, which a save wrote."""
    beside = [path for path in _data_paths(target) if path.is_file()]
    taken = _data_names(target) if beside else frozenset()
    return [path for path in beside if path.name in taken]


def _remove(paths: Sequence[AnyPath], target: AnyPath) -> None:
    """Remove the weights of the model that was replaced. Raises OSError, which names the model."""
    with _naming(target):
        for path in paths:
            path.unlink(missing_ok=True)


def _data_stem(name: str) -> str:
    """Return the name of a model, or a digest where that cannot begin the name of its second file."""
    encoded = os.fsencode(name)
    # onnx 1.23: it takes any ".." in a location for the parent folder; locations are UTF-8.
    if ".." in f"{name}." or len(encoded) > _LONGEST_STEM or not is_utf8(name):
        return f"{hashlib.sha256(encoded).hexdigest()[:32]}.onnx"
    return name


def _data_names(target: AnyPath) -> frozenset[str]:
    """Return the files that the existing model reads its weights from; none if it is not a model."""
    try:
        with open_regular(target) as file:
            found = onnx.ModelProto.FromString(file.read())
    except (OSError, DecodeError):
        return frozenset()
    entries = (entry for tensor in found.graph.initializer for entry in tensor.external_data)
    return frozenset(entry.value for entry in entries if entry.key == "location")


def _keep_mode(target: Path, new: Path) -> None:
    if target.exists():
        new.chmod(target.stat().st_mode & 0o777)


def _write_model(model: ir.Model, file: BinaryIO) -> None:
    """Write a ModelProto field by field.

    In the wire format a message is the concatenation of its fields, and repeated fields may be interleaved with others:
    the graph without its initializers is serialized first, and one field per initializer is appended to it.
    """
    graph = model.graph
    weights = list(graph.initializers.values())
    graph.initializers.clear()
    try:
        shell = to_proto(model)
    finally:
        for value in weights:
            graph.register_initializer(value)
    body = shell.graph.SerializeToString()
    shell.ClearField("graph")
    heads = [_tensor_head(value) for value in weights]
    sizes = [_tensor_size(value, head) for value, head in zip(weights, heads, strict=True)]
    key = _key(onnx.GraphProto.INITIALIZER_FIELD_NUMBER)
    length = len(body) + sum(len(key) + len(_VarintBytes(size)) + size for size in sizes)
    file.write(shell.SerializeToString())
    file.write(_key(onnx.ModelProto.GRAPH_FIELD_NUMBER) + _VarintBytes(length))
    file.write(body)
    for value, head, size in zip(weights, heads, sizes, strict=True):
        file.write(key + _VarintBytes(size) + head)
        tensor = value.const_value
        assert tensor is not None
        if tensor.dtype != ir.DataType.STRING:
            file.write(_key(onnx.TensorProto.RAW_DATA_FIELD_NUMBER) + _VarintBytes(tensor.nbytes))
            file.write(tensor.tobytes())


def _tensor_head(value: ir.Value) -> bytes:
    """Return a serialized TensorProto without its raw data; complete for string tensors, which have no raw data."""
    tensor = value.const_value
    assert tensor is not None
    if tensor.dtype == ir.DataType.STRING:
        proto = ir.serde.serialize_tensor(tensor)
        proto.name = str(value.name)
    else:
        proto = onnx.TensorProto(name=str(value.name), data_type=int(tensor.dtype), dims=tensor.shape.numpy())
    return proto.SerializeToString()


def _tensor_size(value: ir.Value, head: bytes) -> int:
    tensor = value.const_value
    assert tensor is not None
    if tensor.dtype == ir.DataType.STRING:
        return len(head)
    key = _key(onnx.TensorProto.RAW_DATA_FIELD_NUMBER)
    return len(head) + len(key) + len(_VarintBytes(tensor.nbytes)) + tensor.nbytes


def _key(field: int) -> bytes:
    data: bytes = _VarintBytes(field << 3 | _LENGTH_DELIMITED)
    return data
