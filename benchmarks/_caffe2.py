"""Real Caffe2 as a contender, in its own python: run a net, or export one with Caffe2's own ONNX exporter.

usage: <Caffe2's python> _caffe2.py run NET INPUTS.npz OUTPUTS.npz    time runs of a net whose blobs are all fed
                                    export FOLDER                    time exports of FOLDER's nets in memory
                                    once FOLDER (files|memory)       one export: time and peak memory

FOLDER holds predict_net.pb, init_net.pb and value_info.json; the model is written there as caffe2.onnx.
This file runs under the oldest Python that Caffe2 was built for (3.6) and imports nothing of this project's packages.
"""
# ruff: noqa: PTH118, PTH123, UP006, UP035 - as plain as Python 3.6 needs it

import json
import os
import sys
from typing import Any, Callable, Dict, TextIO

import _worker
import numpy as np
from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # Caffe2's own


def run(answers: TextIO, net_path: str, inputs_path: str, outputs_path: str) -> None:
    """Time runs of a net; what it computes is saved first."""
    from caffe2.python import workspace  # type: ignore[import-not-found]  # Caffe2's own

    net = read_net(net_path)
    with np.load(inputs_path, allow_pickle=False) as blobs:
        for name in blobs.files:
            workspace.FeedBlob(name, blobs[name])
    net.name = "measured"
    workspace.C.create_net(net.SerializeToString(), True)  # noqa: FBT003 - a native function, positional only

    def step() -> None:
        workspace.C.run_net(b"measured", 1, False)  # noqa: FBT003 - a native function, positional only

    step()
    np.savez(outputs_path, **{name: workspace.FetchBlob(name) for name in net.external_output})
    _worker.serve(answers, step, warm=1)


def export(answers: TextIO, folder: str) -> None:
    """Time exports in memory; the first model is written, as proof."""
    nets, value_info = read_folder(folder)
    write(convert(nets, value_info), folder)
    _worker.serve(answers, lambda: convert(nets, value_info))


def once(answers: TextIO, folder: str, how: str) -> None:
    """Measure one export, time and peak memory: from the files to a file, or from nets to a model in memory."""
    from caffe2.python.onnx import frontend  # type: ignore[import-not-found]  # noqa: F401 - Caffe2's own; imported before the clock starts

    imported = _worker.resident()
    if how == "memory":
        nets, value_info = read_folder(folder)
        _worker.measure(answers, lambda: convert(nets, value_info), imported)
        return

    def task() -> None:
        given, info = read_folder(folder)
        write(convert(given, info), folder)

    _worker.measure(answers, task, imported)


def read_folder(folder: str) -> Any:
    """Return the nets, and what Caffe2's exporter must be told of the inputs."""
    with open(os.path.join(folder, "value_info.json")) as file:
        value_info = json.load(file)
    return [read_net(os.path.join(folder, name)) for name in ("predict_net.pb", "init_net.pb")], value_info


def read_net(path: str) -> Any:
    """Return one net."""
    net = caffe2_pb2.NetDef()
    with open(path, "rb") as file:
        net.ParseFromString(file.read())
    return net


def convert(nets: Any, value_info: Any) -> Any:
    """Return the ONNX model. The exporter rewrites predict net and value info in place: they are copied first."""
    from caffe2.python.onnx import frontend  # Caffe2's own

    predict, init = nets
    net = caffe2_pb2.NetDef()
    net.CopyFrom(predict)
    return frontend.caffe2_net_to_onnx_model(net, init, {name: tuple(info) for name, info in value_info.items()})


def write(model: Any, folder: str) -> None:
    """Write the model."""
    import onnx

    onnx.save(model, os.path.join(folder, "caffe2.onnx"))


COMMANDS: Dict[str, Callable[..., None]] = {"run": run, "export": export, "once": once}

if __name__ == "__main__":
    stream = _worker.own_stdout()
    COMMANDS[sys.argv[1]](stream, *sys.argv[2:])
