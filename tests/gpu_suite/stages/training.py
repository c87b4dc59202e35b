"""Recorded training programs on the GPU: the loss of every step, and parameters and states at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from support.paths import GOLDEN

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
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
        record(folder.name, "failed" if texts else "passed", reason="; ".join(texts))
        failed += bool(texts)
    return 1 if failed else 0


def _differences(folder: Path) -> Iterator[str]:
    program = json.loads((folder / "program.json").read_text())
    feeds, expected = np.load(folder / "feeds.npz"), np.load(folder / "expected.npz")
    workspace = Workspace("cuda:0")
    workspace.run_net_once(NetDef.FromString((folder / "init_net.pb").read_bytes()))
    net = workspace.create_net(NetDef.FromString((folder / "train_net.pb").read_bytes()))
    for step in range(program["steps"]):
        for key in feeds.files:
            number, _, blob = key.partition("/")
            if int(number) == step:
                workspace.feed(blob, feeds[key])
        workspace.run_net(net)
        loss = np.asarray(workspace.fetch(program["loss"]))
        recorded = expected[f"{step}/{program['loss']}"]
        if not np.allclose(loss, recorded, *_LOSS):
            yield f"step {step}: loss {loss}, expected {recorded}"
            return
    for blob in program["final"]:
        if not np.allclose(np.asarray(workspace.fetch(blob)), expected[f"final/{blob}"], *_FINAL):
            yield f"{blob} differs after the last step"


if __name__ == "__main__":
    sys.exit(main())
