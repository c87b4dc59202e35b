"""ResNet-50 on the GPU: a Predictor, one that replays CUDA graphs, and PyTorch eager, on tensors of the GPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from gpu.measuring import device_tensor, measure, require_cuda, torch_device
from gpu_suite.results import record
from support.models.resnet import resnet50, torch_resnet

from caffe2_backend import Predictor
from caffe2_backend.runtime import SessionOptions
from caffe2_bridge.model import Model

BATCHES = (1, 32)
RTOL, ATOL = 1e-2, 1e-4  # random weights; cuDNN's algorithms differ in the order of sums


def main() -> int:
    """Measure and compare; 1 if PyTorch computes something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cuda"], default="cuda")
    parser.parse_args()
    require_cuda()
    net, init = resnet50()
    model = Model.of(net, init)
    predictor = Predictor(model, "cuda:0")
    graphs = Predictor(model, "cuda:0", options=SessionOptions(cuda_graphs=True))
    same = True
    for batch in BATCHES:
        data = np.random.default_rng(batch).standard_normal((batch, 3, 224, 224)).astype(np.float32)
        given = {"data": device_tensor(data)}
        found = np.asarray(predictor.run(given)["prob"])
        row = {
            "ours_ms": measure(lambda given=given: predictor.run(given, on_device=True)) * 1e3,
            "cuda_graphs_ms": measure(lambda given=given: graphs.run(given, on_device=True)) * 1e3,
        }
        device = torch_device()
        if device:
            row["torch_ms"], expected = _torch(torch_resnet(net, init, device), data, device)
            row["largest_error"] = float(np.abs(found - expected).max())
            row["to_torch"] = row["ours_ms"] / row["torch_ms"]
            same = same and np.allclose(found, expected, RTOL, ATOL)
        record(f"resnet50 N={batch}", "measured" if same else "failed", **row)
    return 0 if same else 1


def _torch(run: Callable[[Any], Any], data: np.ndarray[Any, Any], device: str) -> tuple[float, np.ndarray[Any, Any]]:
    import torch

    with torch.no_grad():
        x = torch.from_numpy(data).to(device)
        result = run(x)
        return measure(lambda: run(x)) * 1e3, result.cpu().numpy()


if __name__ == "__main__":
    sys.exit(main())
