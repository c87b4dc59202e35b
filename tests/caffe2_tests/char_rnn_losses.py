"""Train examples/char_rnn.py, unmodified, for some steps from the same parameters; print losses and texts as JSON.

It runs under this project's Python and under real Caffe2's Python 3.8. Arguments: the copy of Caffe2's Python files to
install the hook for, empty for real Caffe2; the file to train on; the number of steps.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
from typing import Any, List

import numpy as np

copy, data, steps = sys.argv[1:]
if copy:
    from caffe2_backend import install_caffe2

    install_caffe2(copy)

workspace: Any = importlib.import_module("caffe2.python.workspace")
char_rnn: Any = importlib.import_module("caffe2.python.examples.char_rnn")


class _EnoughError(Exception):
    """The steps are done."""


def main() -> None:
    """Train, and print the losses and texts."""
    args = argparse.Namespace(train_data=data, seq_length=12, batch_size=2, iters_to_report=5, hidden_size=16)
    np.random.seed(0)
    losses: List[float] = []
    run_net, run_net_once = workspace.RunNet, workspace.RunNetOnce

    def run(name: str) -> None:
        run_net(name)
        if name == program.model.net.Name():
            losses.append(float(workspace.FetchBlob(program.loss)))
            if len(losses) > int(steps):
                raise _EnoughError

    def run_once(net: object) -> None:
        run_net_once(net)
        for param in sorted(map(str, program.model.GetParams())):
            shape = workspace.FetchBlob(param).shape
            workspace.FeedBlob(param, np.random.uniform(-0.2, 0.2, shape).astype(np.float32))

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        program = char_rnn.CharRNN(args)
        program.vocab = sorted(program.vocab)  # the order of a set differs from Python to Python
        program.char_to_idx = {ch: i for i, ch in enumerate(program.vocab)}
        program.idx_to_char = dict(enumerate(program.vocab))
        program.CreateModel()
        workspace.RunNet, workspace.RunNetOnce = run, run_once
        with contextlib.suppress(_EnoughError):
            program.TrainModel()
    lines = [line for line in text.getvalue().splitlines() if "Per Second" not in line]
    sys.stdout.write(json.dumps({"losses": losses, "lines": lines}) + "\n")


main()
