"""Text files: what real Caffe2 1.9.1 read of the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import TensorProto

TEXT, FLOAT = TensorProto.STRING, TensorProto.FLOAT


def reader(path: Path, content: bytes, types: list[int], **args: Any) -> Workspace:
    (path / "rows.txt").write_bytes(content)
    workspace = Workspace()
    filename = str(path / "rows.txt")
    workspace.run_operator_once(
        operator("CreateTextFileReader", [], ["r"], filename=filename, field_types=types, **args)
    )
    return workspace


def read(workspace: Workspace, fields: int, **args: Any) -> list[Any]:
    names = [f"field{i}" for i in range(fields)]
    workspace.run_operator_once(operator("TextFileReaderRead", ["r"], names, **args))
    arrays = [np.asarray(workspace.fetch(name)) for name in names]
    assert all(array.dtype in (object, np.float32) for array in arrays)
    return [array.tolist() for array in arrays]


def test_batches_of_rows(tmp_path: Path) -> None:
    workspace = reader(tmp_path, b"1\t2.5\tx\n-3\t4e2\tyy z\n7\t8\tw\n", [TEXT, FLOAT, TEXT], num_passes=2)
    assert read(workspace, 3, batch_size=2) == [[b"1", b"-3"], [2.5, 400], [b"x", b"yy z"]]
    assert read(workspace, 3, batch_size=2) == [[b"7", b"1"], [8, 2.5], [b"w", b"x"]]
    assert read(workspace, 3) == [[b"-3"], [400], [b"yy z"]]
    assert read(workspace, 3, batch_size=5) == [[b"7"], [8], [b"w"]]
    assert read(workspace, 3, batch_size=5) == [[], [], []]


@pytest.mark.parametrize(
    ("content", "types", "rows"),
    [
        (b"", [TEXT, TEXT], [[], []]),
        (b"1\t2\r\n3\t4\r\n", [TEXT, TEXT], [[b"1", b"3"], [b"2\r", b"4\r"]]),
        (b" 1\t2 \n", [TEXT, TEXT], [[b" 1"], [b"2 "]]),
        (b"\t2\n", [TEXT, TEXT], [[b""], [b"2"]]),
        (b"1\ta\0b\n", [TEXT, TEXT], [[b"1"], [b"ab"]]),
        (b"abc\ndef", [TEXT], [[b"abc"]]),
        (b"-4e2z\n 7 \nnan\n.5\n0x10\n", [FLOAT], [[-400, 7, None, 0.5, 16]]),
    ],
)
def test_fields(tmp_path: Path, content: bytes, types: list[int], rows: list[Any]) -> None:
    found = read(reader(tmp_path, content, types), len(types), batch_size=9)
    assert [[None if value != value else value for value in column] for column in found] == rows  # noqa: PLR0124 - nan


@pytest.mark.parametrize("content", [b"1\t2\n3\t4", b"1\t2\n\n3\t4\n", b"1\n3\t4\n", b"1\t2\t3\n"])
def test_rows_with_other_numbers_of_fields_are_refused(tmp_path: Path, content: bytes) -> None:
    workspace = reader(tmp_path, content, [TEXT, TEXT])
    for _ in range(2):
        with pytest.raises(RunError, match=r"row \d must have 2 fields and a line break"):
            read(workspace, 2, batch_size=9)


def test_refused_readers(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="types that Caffe2 reads"):
        reader(tmp_path, b"", [TensorProto.INT32])
    with pytest.raises(RunError, match="the file has 1 fields, and the operator 2 outputs"):
        read(reader(tmp_path, b"a\n", [TEXT]), 2)
    with pytest.raises(RunError, match="is not a number"):
        read(reader(tmp_path, b"a\n", [FLOAT]), 1)
    (tmp_path / "rows.txt").unlink()
    with pytest.raises(RunError, match="cannot be read: No such file"):
        Workspace().run_operator_once(
            operator("CreateTextFileReader", [], ["r"], filename=str(tmp_path / "rows.txt"), field_types=[TEXT])
        )
