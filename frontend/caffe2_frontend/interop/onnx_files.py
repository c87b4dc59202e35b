"""Writing ONNX files atomically, without the whole model in memory."""

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

# Protobuf limits a message to 2 GB. The weights of larger models are stored in a separate file.
SINGLE_FILE_LIMIT: Final = 2_000_000_000
# Tensors of more bytes are written to the separate file.
_EXTERNAL_TENSOR: Final = 256
_LENGTH_DELIMITED: Final = 2


def save_onnx(
    model: ir.Model | onnx.ModelProto,
    path: str | os.PathLike[str],
    *,
    external_data_above: int = SINGLE_FILE_LIMIT,
    external_data: int | None = None,
) -> list[Path]:
    """Write a model to a file. Weights are read from where they are stored and written one by one.

    Args:
        model: the model, as ``convert`` or ``to_onnx`` returns it.
        path: the file to write. An existing one is replaced when the new one is complete.
        external_data_above: if the weights have more bytes than this, they are written to ``<path>.data`` (ONNX
            external data).
        external_data: if given, tensors with more bytes than this are written there, whatever the weights have in all.

    Returns:
        The files written.

    Raises:
        OSError: the file cannot be written; an existing one is unchanged.
    """
    if isinstance(model, onnx.ModelProto):
        model = ir.from_proto(model)
    target = Path(path)
    tensors = [v.const_value for v in model.graph.initializers.values() if v.const_value is not None]
    sizes = [tensor.nbytes for tensor in tensors if tensor.dtype != ir.DataType.STRING]
    threshold = _EXTERNAL_TENSOR if external_data is None else external_data
    if sum(size for size in sizes if external_data is None or size <= threshold) > external_data_above:
        return _save_with_data(model, target, min(threshold, _EXTERNAL_TENSOR))
    if external_data is not None and any(size > threshold for size in sizes):
        return _save_with_data(model, target, threshold)
    with replacing(target) as file:
        _write_model(model, file)
    return [target]


@contextmanager
def replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces ``target`` when it is complete. Raises OSError, which names ``target``."""
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
    """Raise errors that name the target, not the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _save_with_data(model: ir.Model, target: Path, threshold: int) -> list[Path]:
    """Write model and weights into a temporary folder next to the target, then move both, the weights first.

    Weights of more bytes than ``threshold`` go to the second file.
    """
    data = target.with_name(f"{target.name}.data")
    with _naming(target):
        made = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    with made as name:
        folder = Path(name)
        ir.save(model, folder / target.name, external_data=data.name, size_threshold_bytes=threshold)
        with _naming(target):
            _replace_both(folder / data.name, data, folder / target.name, target)
    return [target, data]


def _replace_both(new_data: Path, data: Path, new_model: Path, model: Path) -> None:
    """Move the weights, then the model; restore the previous weights if that fails."""
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
    """Write a ModelProto field by field.

    In the wire format a message is the concatenation of its fields, and repeated fields may be interleaved with others:
    the graph without its initializers is serialized first, and one field per initializer is appended to it.
    """
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
    """A serialized TensorProto without its raw data; complete for string tensors, which have no raw data."""
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
