"""Measuring on a GPU: synchronized calls, values that are on the GPU, PyTorch's device. A stand-in counts as a GPU."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.sessions.onnxruntime_library import copy_to_device, missing_cuda
from caffe2_backend.runtime.values import DeviceTensor

ROUNDS: Final = 15
WARM: Final = 3
SECONDS: Final = 4.0  # of a measurement: fewer rounds where a call takes long


def require_cuda() -> None:
    """End the process with one line if onnxruntime has no GPU to compute on."""
    reason = missing_cuda()
    if reason:
        raise SystemExit(f"--device cuda: {reason}")


def torch_device() -> str:
    """Return where PyTorch computes: ``cuda``; ``cpu`` where it sees no GPU, as in a rehearsal; empty without it."""
    if importlib.util.find_spec("torch") is None:
        return ""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_tensor(array: np.ndarray[Any, Any]) -> DeviceTensor:
    """Return the array on the first GPU."""
    return copy_to_device(array, "cuda:0", "cuda:0")


def measure(call: Callable[[], Any]) -> float:
    """Return the median of the seconds of a call, all work on the GPU included."""
    for _ in range(WARM):
        call()
    _synchronize()
    seconds: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(seconds) < ROUNDS and (not seconds or time.perf_counter() < end):
        start = time.perf_counter()
        call()
        _synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _synchronize() -> None:
    """Wait for PyTorch's work on the GPU; onnxruntime's run has ended when its call returns."""
    if torch_device() == "cuda":
        import torch

        torch.cuda.synchronize()
