"""Cases of gradients: asked of real Caffe2, kept in data files, compared."""

from __future__ import annotations

import json
import lzma
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.oracle import OracleError, find_oracle
from google.protobuf import text_format

from caffe2_bridge.gradients import BlobGradient, SparseGradient
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

DATA: Final = Path(__file__).with_name("data")
Case = dict[str, Any]


def ask(kind: str, cases: Sequence[Case]) -> list[Case]:
    """Return the cases with real Caffe2's answers; ``kind`` is ``operators`` or ``nets``."""
    python = find_oracle()
    if python is None:
        raise OracleError("real Caffe2 is not installed; scripts/oracle installs it")
    with tempfile.TemporaryDirectory() as folder:
        request, response = Path(folder, "request.json"), Path(folder, "response.json")
        request.write_text(json.dumps(cases))
        worker = Path(__file__).with_name("caffe2_worker.py")
        subprocess.run([python, worker, kind, request, response], check=True, capture_output=True)  # noqa: S603 - the python that the user installed Caffe2 in
        answers: list[Case] = json.loads(response.read_text())
    return answers


def read_cases(name: str) -> Iterator[Case]:
    """Yield the cases of a data file."""
    with lzma.open(DATA / name, "rt") as file:
        yield from map(json.loads, file)


def write_cases(name: str, cases: Iterable[Case]) -> None:
    """Write a data file."""
    DATA.mkdir(exist_ok=True)
    with lzma.open(DATA / name, "wt", preset=9) as file:
        file.writelines(json.dumps(case, sort_keys=True) + "\n" for case in cases)


def operator(text: str) -> OperatorDef:
    """Return an operator from protobuf text."""
    return text_format.Parse(text, OperatorDef())


def gradient(plain: Any) -> BlobGradient:
    """Return a gradient from JSON."""
    return SparseGradient(**plain) if isinstance(plain, dict) else plain
