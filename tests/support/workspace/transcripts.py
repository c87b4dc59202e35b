"""Calls of a module ``workspace`` that must return, and raise, what those of real Caffe2 do."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

from conformance.oracle import find_oracle
from support.paths import SUPPORT
from support.workspace.caffe2_transcript import encode, replay

from caffe2_compat import workspace

Call = tuple[Any, ...]
_ATTEMPTS: Final = 3  # threads of real Caffe2's plans sometimes end its process by a signal


def compare(transcripts: list[list[Call]], tmp_path: Path) -> None:
    """Replay the calls in real Caffe2 and here, and compare the results one by one."""
    calls = [[[name, encode(args)] for name, *args in transcript] for transcript in transcripts]
    source, target = tmp_path / "calls.json", tmp_path / "results.json"
    source.write_text(json.dumps(calls))
    command = [str(find_oracle()), str(SUPPORT / "workspace" / "caffe2_transcript.py"), str(source), str(target)]
    for _ in range(_ATTEMPTS):
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)  # noqa: S603 - the python that the user names
        if done.returncode >= 0:
            break
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    expected = json.loads(target.read_text())
    for transcript, theirs, own in zip(calls, expected, [replay(workspace, calls) for calls in calls], strict=True):
        for call, reply, mine in zip(transcript, theirs, own, strict=True):
            assert (call[0], mine) == (call[0], reply), transcript
