"""ONNX files, written without the whole model in memory, and all or nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import onnx
import onnx_ir as ir
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined] # protobuf's own varint writer

# Protobuf's limit for one message is 2 GB; beyond it weights lie in a file of their own.
SINGLE_FILE_LIMIT: Final = 2_000_000_000
_LENGTH_DELIMITED: Final = 2


def save_onnx(model: ir.Model, path: str | os.PathLike[str], *, limit: int = SINGLE_FILE_LIMIT) -> list[Path]:
    """Write a model; weights are read from where they lie and written one by one.

    Args:
        model: the model.
        path: the file to write. An existing one is replaced when the new one is complete, and not before.
        limit: above this many bytes of weights they go to ``<path>.data`` (ONNX external data).

    Returns:
        The files written.

    Raises:
        OSError: the file cannot be written; an existing one is as it was.
    """
    target = Path(path)
    total = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
    if total > limit:
        return _save_with_data(model, target)
    with replacing(target) as file:
        _write_model(model, file)
    return [target]


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``target`` once it is complete. Raises OSError, which names ``target``."""
    with _naming(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        with _naming(target):
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Errors name the file that was asked for, not the one that is to become it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _save_with_data(model: ir.Model, target: Path) -> list[Path]:
    """Model and weights are written into a folder beside the target, then both are moved: the weights first."""
    data = target.with_name(f"{target.name}.data")
    with _naming(target):
        made = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    with made as name:
        folder = Path(name)
        ir.save(model, folder / target.name, external_data=data.name)
        with _naming(target):
            _replace_both(folder / data.name, data, folder / target.name, target)
    return [target, data]


def _replace_both(new_data: Path, data: Path, new_model: Path, model: Path) -> None:
    """Move the weights, then the model; where that fails, the weights that were there come back."""
    old = new_data.with_suffix(".old")
    if data.exists():
        data.replace(old)
    try:
        new_data.replace(data)
        new_model.replace(model)
    except OSError:
        if old.exists():
            old.replace(data)
        else:
            data.unlink(missing_ok=True)
        raise


def _write_model(model: ir.Model, file: BinaryIO) -> None:
    """A ModelProto, field by field: messages of the wire format can be written in pieces."""
    graph = model.graph
    weights = list(graph.initializers.values())
    graph.initializers.clear()
    try:
        shell = ir.to_proto(model)
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
    """A TensorProto without its raw data; string tensors have none and are whole."""
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
