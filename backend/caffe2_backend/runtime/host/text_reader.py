"""Text files with a row in each line, of fields between tabs: CreateTextFileReader and TextFileReaderRead."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import HostObject
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_bridge.regular_file import open_regular

family = HostFamily("text_reader")

# What C's strtof reads of a field; the rest of the field is ignored.
_FLOAT: Final = re.compile(
    rb"\s*[+-]?(?:inf(?:inity)?|nan|0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.IGNORECASE
)


class TextReader(HostObject):
    """Rows of a text file, for a number of passes; threads may read at the same time.

    As in Caffe2, a last line without a line break is dropped if it has one field, and refused otherwise.
    """

    type_name = "std::unique_ptr<caffe2::TextFileReaderInstance>"

    def __init__(self, path: Path, field_types: Sequence[int], passes: int) -> None:
        self.field_types = tuple(field_types)
        self._path = path
        self._file: BinaryIO = open_regular(path)
        weakref.finalize(self, self._file.close)
        self._rows = self._read_rows(passes)
        self._failure: str | None = None
        self._lock = threading.Lock()

    def read(self, count: int) -> list[list[bytes]]:
        """Read up to so many rows, fewer at the end.

        Raises RunError if a row has another number of fields; so does every read after it.
        """
        with self._lock:
            if self._failure is not None:
                raise RunError(self._failure)
            try:
                return [row for _, row in zip(range(count), self._rows, strict=False)]
            except RunError as error:
                self._failure = str(error)
                raise

    def _read_rows(self, passes: int) -> Iterator[list[bytes]]:
        for _ in range(passes):
            self._file.seek(0)
            for number, line in enumerate(self._file):
                row = line.removesuffix(b"\n").replace(b"\0", b"").split(b"\t")
                if not line.endswith(b"\n") and len(row) == 1:
                    break
                if not line.endswith(b"\n") or len(row) != len(self.field_types):
                    raise RunError(
                        f"{self._path}: row {number} must have {len(self.field_types)} fields and a line break"
                    )
                yield row
        self._file.close()


@family.runs("CreateTextFileReader")
def create(op: HostOp) -> None:
    """CreateTextFileReader(; filename, field_types, num_passes=1) -> reader. Fields are STRING or FLOAT."""
    types = op.args.integers("field_types")
    unsupported = [kind for kind in types if kind not in (TensorProto.STRING, TensorProto.FLOAT)]
    if not types or unsupported:
        raise op.error("field_types must be a list of STRING (4) and FLOAT (1), the types that Caffe2 reads")
    path = Path(op.frame.files.path(op.args.text("filename"), absolute=True))
    try:
        op.set(0, TextReader(path, types, op.args.integer("num_passes", default=1)))
    except OSError as error:
        raise op.error(f"the file {path} cannot be read: {error.strerror}") from None


@family.runs("TextFileReaderRead")
def read(op: HostOp) -> None:
    """TextFileReaderRead(reader; batch_size=1) -> fields...: tensors of texts and of float32, empty after the end."""
    reader = op.object(0, TextReader)
    if len(op.outputs) != len(reader.field_types):
        raise op.error(f"the file has {len(reader.field_types)} fields, and the operator {len(op.outputs)} outputs")
    with op.translating(RunError):
        rows = reader.read(op.args.integer("batch_size", default=1))
    for i, kind in enumerate(reader.field_types):
        column: list[Any] = [row[i] for row in rows]
        if kind == TensorProto.FLOAT:
            op.set(i, np.array([_number(op, field) for field in column], np.float32))
        else:
            texts = np.empty(len(column), object)
            texts[:] = column
            op.set(i, texts)


def _number(op: HostOp, field: bytes) -> float:
    match = _FLOAT.match(field)
    if match is None:
        raise op.error(f"{field!r} is not a number")
    text = match.group().strip().lower()
    return float(int(text, 16)) if b"x" in text else float(text)
