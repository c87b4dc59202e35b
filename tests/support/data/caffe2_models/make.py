"""Writes the models of this folder with real Caffe2's own tools: PYTHON make.py, with the Python that has Caffe2.

``mobile_lstm``: an LSTM and a classifier, exported by mobile_exporter, which declares every blob that is never read as
an output. ``gpu_cnn``: a convolutional net built for a GPU, with a GPU init net, copies and cuDNN engines. Its values
come from the same operators without device options. Each folder has ``predict_net.pb``, ``init_net.pb`` and
``cases.npz`` with ``in/BLOB`` and ``out/BLOB``.

``translation_decoder`` is not written here: its ``predict_net.pb`` is what Seq2SeqModelCaffe2EnsembleDecoder of
Caffe2's own models/seq2seq builds (bidirectional encoder, attention, beam search of 3), with random weights, and its
values (``CASE/in/BLOB``, ``CASE/out/BLOB``) were recorded in real Caffe2.
"""
# ruff: noqa: UP006, UP035 - Python 3.8 and its NumPy

from pathlib import Path
from typing import Any, Dict

import numpy as np
from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found] # real Caffe2's own
from caffe2.python import brew, core, model_helper, rnn_cell, workspace  # type: ignore[import-not-found] # the same
from caffe2.python.predictor import mobile_exporter  # type: ignore[import-not-found] # the same

Array = Any

HERE = Path(__file__).parent
COPIES = ("CopyCPUToGPU", "CopyGPUToCPU")


def write(name: str, init: caffe2_pb2.NetDef, predict: caffe2_pb2.NetDef, inputs: Dict[str, Array]) -> None:
    """Run the nets on the CPU, and write them with the values of all declared outputs that are tensors."""
    workspace.ResetWorkspace()
    workspace.RunNetOnce(on_cpu(init))
    for blob, value in inputs.items():
        workspace.FeedBlob(blob, value)
    workspace.RunNetOnce(on_cpu(predict))
    values = {f"in/{blob}": value for blob, value in inputs.items()}
    for blob in predict.external_output:
        if "workspaces" not in blob:
            values[f"out/{blob}"] = workspace.FetchBlob(blob)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    np.savez_compressed(str(folder / "cases.npz"), **values)


def on_cpu(net: caffe2_pb2.NetDef) -> caffe2_pb2.NetDef:
    """Return the net without devices, with copies between devices as copies on the CPU."""
    plain = caffe2_pb2.NetDef()
    plain.CopyFrom(net)
    plain.ClearField("device_option")
    for op in plain.op:
        op.ClearField("device_option")
        op.ClearField("engine")
        if op.type in COPIES:
            op.type = "Copy"
    return plain


def mobile_lstm() -> None:
    """Export an LSTM; mobile_exporter lists lstm/step_workspaces, which is no tensor, and states that force a Scan."""
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("tagger")
    model.net.AddExternalInputs("data", "lengths", "h0", "c0")
    hidden, _, _, _ = rnn_cell.LSTM(model, "data", "lengths", ("h0", "c0"), 4, 6, scope="lstm", forward_only=True)
    brew.fc(model, hidden, "scores", 6, 3, axis=2)
    model.net.Softmax("scores", "prob", axis=2)
    workspace.RunNetOnce(model.param_init_net)
    random = np.random.RandomState(3)
    inputs = {
        "data": random.randn(5, 2, 4).astype(np.float32),
        "lengths": np.array([5, 3], np.int32),
        "h0": random.randn(1, 2, 6).astype(np.float32),
        "c0": random.randn(1, 2, 6).astype(np.float32),
    }
    for blob, value in inputs.items():
        workspace.FeedBlob(blob, value)
    init, predict = mobile_exporter.Export(workspace, model.net, model.params)
    write("mobile_lstm", init, predict, inputs)


def gpu_cnn() -> None:
    """Write a GPU net with two operators on the CPU in its middle: the copies around them are explicit."""
    gpu, cpu = core.DeviceOption(caffe2_pb2.CUDA, 1), core.DeviceOption(caffe2_pb2.CPU)
    model = model_helper.ModelHelper("gpu_cnn", arg_scope={"order": "NCHW", "use_cudnn": True})
    model.net.AddExternalInputs("data")
    with core.DeviceScope(gpu):
        model.net.CopyCPUToGPU("data", "data_gpu")
        brew.conv(model, "data_gpu", "conv", 3, 4, kernel=3, pad=1)
        brew.spatial_bn(model, "conv", "bn", 4, is_test=True)
        brew.relu(model, "bn", "bn")
        model.net.CopyGPUToCPU("bn", "bn_cpu")
    with core.DeviceScope(cpu):
        model.net.EnsureCPUOutput("bn_cpu", "bn_host")
        model.net.Sigmoid("bn_host", "gate")
    with core.DeviceScope(gpu):
        model.net.CopyFromCPUInput("gate", "gate_gpu")
        model.net.Mul(["bn", "gate_gpu"], "gated")
        brew.max_pool(model, "gated", "pool", kernel=2, stride=2)
        brew.fc(model, "pool", "scores", 4 * 4 * 4, 5)
        brew.softmax(model, "scores", "prob")
        model.net.EnsureCPUOutput("prob", "prob_cpu")
    for op in model.net.Proto().op:
        if op.type in ("Conv", "Relu", "MaxPool", "SpatialBN", "Softmax"):
            op.engine = "CUDNN"
    model.net.AddExternalOutput(core.BlobReference("prob_cpu"))
    workspace.ResetWorkspace()
    workspace.RunNetOnce(on_cpu(model.param_init_net.Proto()))
    fills = caffe2_pb2.NetDef(name="gpu_cnn_init")
    fills.device_option.CopyFrom(gpu)
    for name in model.GetAllParams(""):
        value = workspace.FetchBlob(name)
        fill = core.CreateOperator("GivenTensorFill", [], [str(name)], shape=value.shape, values=value.ravel())
        fills.op.add().CopyFrom(fill)
    fills.op[0].device_option.CopyFrom(gpu)
    predict = caffe2_pb2.NetDef()
    predict.CopyFrom(model.net.Proto())
    predict.device_option.CopyFrom(gpu)
    inputs = {"data": np.random.RandomState(4).randn(2, 3, 8, 8).astype(np.float32)}
    write("gpu_cnn", fills, predict, inputs)


if __name__ == "__main__":
    mobile_lstm()
    gpu_cnn()
