"""Training steps on a GPU, beside PyTorch's eager steps, all in one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np
from gpu_suite.results import record
from workloads.recurrent_training import torch_step as torch_lstm_step
from workloads.training import Workload, torch_step

from caffe2_backend import Workspace
from gpu.measuring import measure, require_cuda, torch_device

# The most important first.
ON_GPU: Final = ("char lstm", "mlp", "lenet", "large lstm", "embedding sgd 500000", "embedding adagrad 500000")
MILLI: Final = 1000
STEPS: Final = 5
RTOL, ATOL = 1e-2, 1e-3


def run(workloads: Mapping[str, Workload], lstms: Collection[str]) -> int:
    """Measure and record a step of each workload; 1 if a result of the first step differs from that on the CPU."""
    require_cuda()
    same = True
    for name in sorted(workloads, key=ON_GPU.index):
        workload = workloads[name]
        found, expected = _prepared(workload, "cuda:0"), _prepared(workload, "cpu")
        first, other = (np.asarray(space.fetch(workload.result)) for space, _ in (found, expected))
        good = not workload.exact or np.allclose(first, other, RTOL, ATOL)
        space, net = found
        figures = {"ours_ms": measure(lambda space=space, net=net: space.run_net(net, STEPS)) / STEPS * MILLI}
        device = torch_device()
        step = None
        if device:
            make: Any = torch_lstm_step if name in lstms else torch_step
            step = make(name, workload.feed, device)
        if step is not None:
            figures["torch_ms"] = measure(lambda step=step: [step() for _ in range(STEPS)]) / STEPS * MILLI
            figures["to_torch"] = figures["ours_ms"] / figures["torch_ms"]
        record(name, "measured" if good else "failed", reason="" if good else "differs from the CPU", **figures)
        same &= good
    return 0 if same else 1


def _prepared(workload: Workload, device: str) -> tuple[Workspace, str]:
    """Return a workspace after one step."""
    space = Workspace(device)
    space.run_net_once(workload.init)
    for name, array in workload.feed.items():
        space.feed(name, array)
    space.create_net(workload.net)
    space.run_net(workload.net.name)
    space.fetch(workload.result)
    return space, workload.net.name
