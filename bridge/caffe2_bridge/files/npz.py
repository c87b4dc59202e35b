"""Read .npz and .npy files, which may be damaged, or claim to be larger than they are."""

from __future__ import annotations

import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from caffe2_bridge.bounds import refusal_to_unpack
from caffe2_bridge.diagnostics import BridgeError, NetFormatError
from caffe2_bridge.regular_file import open_regular
from caffe2_bridge.storage import AnyPath

_NAME: Final = 30  # where the name of a member begins, after its header
# What zipfile, zlib and NumPy's parser of headers, which uses Python's, raise for damaged files.
_MALFORMED: Final = (
    ValueError, TypeError, EOFError, LookupError, OverflowError, MemoryError, RuntimeError, SyntaxError, struct.error,
    zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip


def holds_npz(head: bytes) -> bool:
    """Whether a file that begins so is an .npz archive: a zip whose first member is an array."""
    size = int.from_bytes(head[26:28], "little")
    return head.startswith(b"PK\x03\x04") and head[_NAME : _NAME + size].endswith(b".npy")


def read_npz(path: AnyPath) -> dict[str, Any]:
    """Read arrays by name.

    Raises NetFormatError if the file is not an .npz file of plain arrays, BridgeError if there is not enough memory,
    OSError.
    """
    kind = "an .npz file of plain arrays"
    with _malformed(kind, path), open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
        return _read_arrays(archive, os.fstat(opened.fileno()).st_size, path)


def read_npy(path: AnyPath) -> npt.NDArray[Any]:
    """Read the array of an .npy file. Raises as :func:`read_npz`."""
    with _malformed("an .npy file of a plain array", path), open_regular(path) as opened:
        return _read_array(opened, path.name, os.fstat(opened.fileno()).st_size, path)


@contextmanager
def _malformed(kind: str, path: AnyPath) -> Iterator[None]:
    """Raise NetFormatError for what a damaged file leads to."""
    try:
        yield
    except (OSError, NetFormatError):
        raise
    except _MALFORMED as error:
        raise NetFormatError(f"not {kind}: {error}", str(path)) from None


def _read_arrays(archive: zipfile.ZipFile, size: int, path: AnyPath) -> dict[str, Any]:
    """Read the arrays of an archive of so many bytes."""
    members = archive.infolist()
    refusal = refusal_to_unpack(sum(info.file_size for info in members), size)
    if refusal:
        raise NetFormatError(refusal, str(path))
    return {info.filename.removesuffix(".npy"): _read_member(archive, info, path) for info in members}


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: AnyPath) -> npt.NDArray[Any]:
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise ValueError(f"{info.filename!r} is compressed in a way that NumPy does not use")
    with archive.open(info) as stream:
        return _read_array(stream, info.filename, info.file_size, path)


def _read_array(stream: IO[bytes], name: str, size: int, path: AnyPath) -> npt.NDArray[Any]:
    """Read an array of a file of so many bytes. It takes no more memory than that, and that is what its header says."""
    try:
        shape, fortran, dtype = _read_header(stream)
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(f"the header of {name!r} has more than 10,000 bytes") from None
    expected = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"{name!r} must hold numbers or text, of dims that are not negative")
    content = _read_content(stream, expected, path) if expected <= size else bytearray()
    if len(content) != expected:
        raise ValueError(f"{name!r} of shape {shape} and type {dtype} does not have {expected:,} bytes")
    array = np.frombuffer(content, dtype, count=math.prod(shape)) if expected else np.zeros(shape, dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _read_content(stream: IO[bytes], expected: int, path: AnyPath) -> bytearray:
    """Read as many bytes, or those that there are, and one more. Raises BridgeError if there is not enough memory."""
    try:
        return bytearray(stream.read(expected + 1))
    except MemoryError:
        raise BridgeError(f"{path}: there is not enough memory for an array of {expected:,} bytes") from None


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of NumPy's format is not supported")
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(stream)
    return header
