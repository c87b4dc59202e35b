"""Recorded training programs on the GPU: the loss of every step, and parameters and states at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from support.paths import GOLDEN
from support.training import read_program, replay

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import BridgeError
from gpu_suite.results import record

_LOSS = (1e-3, 1e-4)  # relative and absolute tolerance
_FINAL = (5e-3, 5e-4)


def main() -> int:
    """Train each program; 1 if one differs."""
    failed = 0
    for folder in sorted(path.parent for path in (GOLDEN / "training").glob("*/program.json")):
        try:
            texts = list(_differences(folder))
        except BridgeError as error:
            texts = [str(error)]
        failed += not record(folder.name, "failed" if texts else "passed", reason="; ".join(texts))
    return 1 if failed else 0


def _differences(folder: Path) -> Iterator[str]:
    program = read_program(folder)
    workspace = Workspace("cuda:0")
    for step, (loss, recorded) in enumerate(zip(replay(program, workspace), program.losses, strict=True)):
        if not np.allclose(loss, recorded, *_LOSS):
            yield f"step {step}: loss {loss}, expected {recorded}"
            return
    for blob, final in program.final.items():
        if not np.allclose(np.asarray(workspace.fetch(blob)), final, *_FINAL):
            yield f"{blob} differs after the last step"


if __name__ == "__main__":
    sys.exit(main())
