"""Train a table of embeddings, built by Caffe2's own Python: a contender of sparse.py.

A step looks up to 5 rows of 32 for each of 128 samples up and sums them, then FC, a loss, gradients, and an optimizer
of caffe2.python.optimizer; it is fed other ids, lengths and labels each time. Real Caffe2's python runs this file too,
so it is written for Python 3.6. Arguments: the copy of Caffe2's Python files to install the hook for, empty for real
Caffe2; the optimizer, with its options as name=value; the rows of the table; the steps of a turn.
"""

import importlib
import json
import os
import sys

import _worker
import numpy as np

SAMPLES, MOST, WIDTH, FEEDS = 128, 5, 32, 64


def main() -> None:
    """Serve turns."""
    copy, kind, rows, steps = sys.argv[1:]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    answers = _worker.own_stdout()
    if copy:
        importlib.import_module("caffe2_backend").install_caffe2(copy)
    brew, helper, optimizer, workspace = (
        importlib.import_module("caffe2.python." + name) for name in ("brew", "model_helper", "optimizer", "workspace")
    )
    model = helper.ModelHelper("table")
    model.net.AddExternalInputs("ids", "lengths", "label")
    table = model.param_init_net.ConstantFill([], "table", shape=[int(rows), WIDTH], value=0.01)
    model.AddParameter(table)
    summed = model.net.SparseLengthsSum([table, "ids", "lengths"], "summed")
    score, _ = model.net.Reshape(brew.fc(model, summed, "fc", WIDTH, 1), ["score", "old_shape"], shape=[-1])
    each = model.net.SigmoidCrossEntropyWithLogits([score, "label"], "each")
    loss = model.net.AveragedLoss(each, "loss")
    model.AddGradientOperators([loss])
    name, *options = kind.split()
    pairs = (option.split("=") for option in options)
    rate = {} if name == "ftrl" else {"base_learning_rate": 0.1}
    getattr(optimizer, "build_" + name)(model, **rate, **{key: json.loads(value) for key, value in pairs})
    random = np.random.RandomState(0)
    feeds = []
    for _ in range(FEEDS):
        lengths = random.randint(0, MOST + 1, SAMPLES).astype(np.int32)
        label = random.randint(0, 2, SAMPLES).astype(np.float32)
        feeds.append({"lengths": lengths, "ids": random.randint(0, int(rows), lengths.sum()), "label": label})

    def step(index: int) -> None:
        for blob, value in feeds[index % FEEDS].items():
            workspace.FeedBlob(blob, value)
        workspace.RunNet(model.net)

    for blob, value in feeds[0].items():
        workspace.FeedBlob(blob, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    step(0)
    _worker.serve(answers, lambda: [step(index) for index in range(int(steps))], warm=1)


main()
