"""Programs that read and write datasets with Caffe2's own Python, in real Caffe2 and on this project's runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conformance.oracle import oracle_packages, required_oracle
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

PROGRAM = ROOT / "tests" / "end_to_end" / "programs" / "datasets_in_files.py"


def output(*command: str, **environment: str) -> Any:
    """Return the JSON in the last line that a command prints."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True, timeout=200)  # noqa: S603 - ours
    return json.loads(done.stdout.splitlines()[-1])


def test_a_dataset_is_saved_and_read_as_in_caffe2(tmp_path: Path) -> None:
    python, copy = required_oracle(), oracle_packages()
    theirs, ours = tmp_path / "theirs.db", tmp_path / "ours.db"
    expected = output(str(python), str(PROGRAM), str(theirs))
    packages = os.pathsep.join(str(ROOT / name) for name in ("bridge", "frontend", "backend"))
    start = "from caffe2_cli.commands import main; main()"
    command = [sys.executable, "-c", start, "python", "--caffe2", str(copy), str(PROGRAM), str(ours)]
    assert output(*command, PYTHONPATH=packages) == expected
    assert ours.read_bytes() == theirs.read_bytes()
    assert len(expected[1]) == 4
