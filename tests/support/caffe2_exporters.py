"""Exports one net with Caffe2's mobile exporter and as its Caffe translator does: caffe2_exporters.py FOLDER.

Runs in real Caffe2's python (3.8) and imports nothing of this project. The folder gets ``mobile_`` and ``translated_``
pairs of nets, and ``expected.npz`` with an input and real Caffe2's output.
"""
# The interpreter that runs this has Caffe2 and another NumPy.
# mypy: ignore-errors

import sys
import types
from pathlib import Path

import numpy as np

# The translator imports the protobufs of Caffe, which the function that is called here does not use.
sys.modules["caffe"] = types.ModuleType("caffe")
sys.modules["caffe.proto"] = types.ModuleType("caffe.proto")
sys.modules["caffe.proto"].caffe_pb2 = types.ModuleType("caffe_pb2")

from caffe2.proto import caffe2_pb2  # noqa: E402 - after the stand-ins
from caffe2.python import brew, model_helper, utils, workspace  # noqa: E402
from caffe2.python.caffe_translator import ConvertTensorProtosToInitNet  # noqa: E402
from caffe2.python.predictor import mobile_exporter  # noqa: E402


def main(folder: Path) -> None:
    """Build the net, run it, and write both exports."""
    model = model_helper.ModelHelper("m", arg_scope={"order": "NCHW"})
    brew.conv(model, "data", "c", 3, 4, kernel=3)
    brew.relu(model, "c", "c")
    model.net.AddExternalOutput(brew.fc(model, "c", "y", 4 * 36, 2))
    workspace.RunNetOnce(model.param_init_net)
    x = np.random.RandomState(0).rand(1, 3, 8, 8).astype(np.float32)
    workspace.FeedBlob("data", x)
    workspace.RunNetOnce(model.net)
    np.savez(str(folder / "expected.npz"), x=x, y=workspace.FetchBlob("y"))
    write(folder, "mobile", *mobile_exporter.Export(workspace, model.net, model.params))
    names = [str(name) for name in model.params]
    params = [utils.NumpyArrayToCaffe2Tensor(workspace.FetchBlob(name), name) for name in names]
    init = ConvertTensorProtosToInitNet(caffe2_pb2.TensorProtos(protos=params), "data")
    write(folder, "translated", init, model.net.Proto())


def write(folder: Path, name: str, init: caffe2_pb2.NetDef, predict: caffe2_pb2.NetDef) -> None:
    """Write a pair of nets."""
    (folder / f"{name}init_net.pb").write_bytes(init.SerializeToString())
    (folder / f"{name}predict_net.pb").write_bytes(predict.SerializeToString())


main(Path(sys.argv[1]))
