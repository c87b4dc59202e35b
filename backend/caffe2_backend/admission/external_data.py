"""External data: the values of tensors in files of their own, which a model may name only inside its folder."""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_bridge.regular_file import is_utf8

_FOLDER_HINT: Final = "give the path of the model's file, or pass base_dir='FOLDER', the folder of the files"
# onnxruntime takes the offset of such a location for an address in memory.
_MEMORY_TAG: Final = "_ORT_MEM_ADDR_"
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class ExternalDataError(Exception):
    """A tensor names external data that it must not read; with a hint for the user."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass(frozen=True)
class Extent:
    """Bytes of a file inside a resolved folder: ``location`` is relative to it, and contains no links."""

    folder: str
    location: str
    offset: int
    length: int

    def read(self) -> bytes:
        """Return the bytes. Raises ExternalDataError where the file is not what it was, or cannot be read."""
        try:
            file = os.open(Path(self.folder, self.location), _OPEN)
            with os.fdopen(file, "rb") as opened:
                _check_status(os.fstat(file), self.location)
                opened.seek(self.offset)
                data = opened.read(self.length)
        except OSError as error:
            raise ExternalDataError(f"file {self.location!r} cannot be read: {error.strerror or error}") from None
        if len(data) < self.length:
            raise ExternalDataError(f"file {self.location!r} is shorter than it was")
        return data


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the values of a tensor are in a file of their own."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def location_of(tensor: onnx.TensorProto) -> str:
    """Return the file that an external tensor names. Raises ExternalDataError."""
    return _entries(tensor).get("location", "")


def extent_of(tensor: onnx.TensorProto, folder: str | None) -> Extent:
    """Return where the values of an external tensor are, in ``folder``. Raises ExternalDataError."""
    entries = _entries(tensor)
    dtype = ir.DataType(tensor.data_type)
    if dtype == ir.DataType.STRING:
        raise ExternalDataError("strings cannot be external data")
    size = math.ceil(math.prod(tensor.dims) * dtype.itemsize)
    offset, length = (_number(entries, key) for key in ("offset", "length"))
    return _extent(entries.get("location", ""), offset or 0, length, size, folder)


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    """Return how a tensor describes where its values are. Raises ExternalDataError if it does not do so in text."""
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries:
            raise ExternalDataError(f"{entry.key!r} is given twice")
        if isinstance(entry.key, bytes) or isinstance(entry.value, bytes):  # how protobuf gives what is not UTF-8
            raise ExternalDataError(f"location {entry.value!r} is not UTF-8")
        entries[entry.key] = entry.value
    return entries


def extent_of_ir(tensor: ir.ExternalTensor, folder: str | None) -> Extent:
    """Return the extent as :func:`extent_of`, of a tensor of onnx_ir, whose own folder counts where it has one."""
    own = os.fspath(tensor.base_dir)
    if tensor.dtype == ir.DataType.STRING:
        raise ExternalDataError("strings cannot be external data")
    return _extent(os.fspath(tensor.location), tensor.offset or 0, tensor.length, tensor.nbytes, own or folder)


def _number(entries: dict[str, str], key: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ExternalDataError(f"{key} {text!r} is not a number of bytes")
    return int(text)


def _extent(location: str, offset: int, length: int | None, size: int, folder: str | None) -> Extent:
    if folder is None:
        raise ExternalDataError(f"file {location!r} cannot be found: the model's folder is not known", _FOLDER_HINT)
    check_spelling(location)
    root = os.path.realpath(folder)
    path = os.path.realpath(Path(root, location))
    if os.path.commonpath([root, path]) != root:
        raise ExternalDataError(f"file {location!r} is a link that leaves the model's folder")
    try:
        status = Path(path).lstat()
    except OSError as error:
        raise ExternalDataError(f"file {location!r} cannot be read: {error.strerror or error}") from None
    _check_status(status, location)
    if offset < 0 or (length is not None and length < size) or offset + max(length or 0, size) > status.st_size:
        raise ExternalDataError(f"the values do not fit in file {location!r} of {status.st_size} bytes")
    return Extent(root, os.path.relpath(path, root), offset, size)


def check_spelling(location: str) -> None:
    """Refuse locations that leave the folder on any system, whichever this one is."""
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location:
        raise ExternalDataError(f"location {location!r} is not a file name")
    if not is_utf8(location):
        raise ExternalDataError(f"location {location!r} is not UTF-8")
    if "\\" in location or location.startswith("/") or ".." in parts or ":" in parts[0]:
        raise ExternalDataError(
            f"location {location!r} is not a relative path inside the model's folder",
            "write locations relative to the folder, with '/' between the parts",
        )
    if _MEMORY_TAG in parts:
        raise ExternalDataError(f"location {location!r} is an address in memory, not a file")


def _check_status(status: os.stat_result, location: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ExternalDataError(f"{location!r} is not a regular file")
    if status.st_nlink > 1:
        raise ExternalDataError(
            f"file {location!r} has more than one hard link, which may lie outside the model's folder",
            "copy the file",
        )
