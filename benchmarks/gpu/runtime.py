"""Calls of models/char_rnn on a GPU: a bare session, Predictor, CUDA graphs, Workspace, and the same in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from gpu_suite.results import record
from support.paths import CHAR_RNN

from caffe2_backend.runtime import Predictor, SessionOptions, Workspace
from caffe2_backend.runtime.sessions.onnxruntime_library import onnxruntime
from caffe2_bridge import load
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend import to_onnx
from gpu.measuring import device_tensor, measure, require_cuda, torch_device

MICRO: Final = 1_000_000
CALLS: Final = 100  # of a measurement
RTOL, ATOL = 1e-2, 1e-3


def run() -> int:
    """Measure and record each way to call; 1 if one computes something else."""
    require_cuda()
    random = np.random.default_rng(0)
    feed = {
        "input_blob": random.random((1, 1, 94), np.float32),
        "seq_lengths": np.ones(1, np.int32),
        "hidden_init": random.random((1, 1, 192), np.float32),
        "cell_init": random.random((1, 1, 192), np.float32),
    }
    model = load(CHAR_RNN)
    expected = Predictor(model).run(feed)["softmax"]
    given = {name: device_tensor(array) for name, array in feed.items()}
    plain = Predictor(model, "cuda:0")
    graphs = Predictor(model, "cuda:0", options=SessionOptions(cuda_graphs=True))
    space, net = _workspace(model, feed)
    ways: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "bare session": (bare := _bare(model, given), bare()[-1].numpy),
        "predictor, values on the GPU": (
            lambda: plain.run(given, on_device=True), lambda: plain.run(given)["softmax"]),
        "predictor, host arrays": (lambda: plain.run(feed), lambda: plain.run(feed)["softmax"]),
        "predictor, CUDA graphs": (
            lambda: graphs.run(given, on_device=True), lambda: graphs.run(given)["softmax"]),
        "workspace": (lambda: space.run_net(net), lambda: space.fetch("softmax")),
    }  # fmt: skip
    same = True
    for name, (call, result) in ways.items():
        try:
            good = np.allclose(np.asarray(result()), expected, RTOL, ATOL)
        except RunError as error:
            record(name, "skipped", reason=str(error))
            continue
        record(name, "measured" if good else "failed", microseconds=_microseconds(call),
               reason="" if good else "differs from the CPU")  # fmt: skip
        same &= good
    device = torch_device()
    if device:
        record("PyTorch", "measured", microseconds=_microseconds(_torch(feed, device)))
    return 0 if same else 1


def _microseconds(call: Callable[[], Any]) -> float:
    def calls() -> None:
        for _ in range(CALLS):
            call()

    return measure(calls) / CALLS * MICRO


def _workspace(model: Any, feed: dict[str, Any]) -> tuple[Workspace, str]:
    space = Workspace("cuda:0")
    space.run_net_once(model.init)
    for name, array in feed.items():
        space.feed(name, array)
    net = space.create_net(model.predict_net)
    space.run_net(net)
    space.fetch("softmax")
    space.run_net(net)
    return space, net


def _bare(model: Any, given: dict[str, Any]) -> Callable[[], Any]:
    session = onnxruntime().InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for value in session.get_inputs():
        binding.bind_ortvalue_input(value.name, given[value.name].ort)
    names = [value.name for value in session.get_outputs()]
    for name in [*(name for name in names if name != "softmax"), "softmax"]:
        binding.bind_output(name, "cuda", 0)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return call


def _torch(feed: dict[str, Any], device: str) -> Callable[[], Any]:
    import torch

    lstm, last = torch.nn.LSTM(94, 192).to(device), torch.nn.Linear(192, 94).to(device)
    x, h, c = (torch.from_numpy(feed[name]).to(device) for name in ("input_blob", "hidden_init", "cell_init"))

    def call() -> Any:
        with torch.no_grad():
            return torch.softmax(last(lstm(x, (h, c))[0]), -1)

    return call
