"""Real Caffe2 as a contender for small nets: many runs of a net, by Caffe2's own RunNet.

usage: <Caffe2's python> _caffe2_calls.py FOLDER INPUTS.npz OUTPUTS.npz CALLS [ITERATIONS]

Each of the calls makes so many iterations (default 1). FOLDER holds predict_net.pb and init_net.pb. This file runs
under the oldest Python that Caffe2 was built for (3.6).
"""
# ruff: noqa: PTH118 - as plain as Python 3.6 needs it

import os
import sys
from typing import TextIO

import _worker
import numpy as np
from _caffe2 import read_net
from caffe2.python import workspace  # type: ignore[import-not-found]  # Caffe2's own


def main(answers: TextIO, folder: str, inputs_path: str, outputs_path: str, calls: str, iterations: str = "1") -> None:
    """Run the net once, save what it computes, then run it ``calls`` times when told."""
    imported = _worker.resident()
    workspace.RunNetOnce(read_net(os.path.join(folder, "init_net.pb")))
    net = read_net(os.path.join(folder, "predict_net.pb"))
    with np.load(inputs_path, allow_pickle=False) as blobs:
        for name in blobs.files:
            workspace.FeedBlob(name, blobs[name])
    workspace.CreateNet(net)
    name = net.name

    def task() -> None:
        for _ in range(int(calls)):
            workspace.RunNet(name, int(iterations))

    workspace.RunNet(name)
    np.savez(outputs_path, **{blob: workspace.FetchBlob(blob) for blob in net.external_output})
    _worker.serve(answers, task, warm=0, imported=imported)


if __name__ == "__main__":
    main(_worker.own_stdout(), *sys.argv[1:])
