"""Create, run and measure nets, operators and plans of the current workspace."""

from __future__ import annotations

import time
from typing import Any

from caffe2_backend import workspace as functions
from caffe2_compat.extension.runs.observers import observers_of
from caffe2_compat.extension.runs.running import Running, create_operands, read_net
from caffe2_compat.extension.values.blobs import text
from caffe2_compat.workspace.named_workspaces import current
from caffe2_compat.workspace.plans import BackgroundPlan

__all__ = [
    "BackgroundPlan",
    "Predictor",
    "benchmark_net",
    "benchmark_net_once",
    "create_net",
    "delete_net",
    "nets",
    "run_net",
    "run_net_once",
    "run_operator_multiple",
    "run_operator_once",
    "run_plan",
    "run_plan_in_background",
]

Predictor = functions.PositionalPredictor


def create_net(net_def: bytes, overwrite: bool = False) -> bool:
    """Create a net."""
    net = read_net(net_def)
    with Running(current(), net):
        create_operands(current(), net)
        return functions.CreateNet(net, overwrite)


def delete_net(name: Any) -> bool:
    """Remove a net that was created."""
    return current().remove_net(text(name))


def nets() -> list[str]:
    """Return the names of the nets that were created."""
    return current().nets()


def run_net(name: Any, num_iter: int, allow_fail: bool) -> bool:
    """Run a net that was created."""
    workspace, net = current(), text(name)
    with Running(workspace, workspace.net(net)):
        start = time.perf_counter()
        done = functions.RunNet(net, num_iter, allow_fail)
        for observer in observers_of(workspace, net):
            observer.add(num_iter, time.perf_counter() - start)
        return done


def run_net_once(net_def: bytes) -> bool:
    """Run a net without creating it."""
    net = read_net(net_def)
    with Running(current(), net):
        create_operands(current(), net)
        return functions.RunNetOnce(net)


def run_operator_once(op_def: bytes) -> bool:
    """Run one operator."""
    with Running(current()):
        return functions.RunOperatorOnce(op_def)


def run_operator_multiple(op_def: bytes, num_runs: int) -> bool:
    """Run one operator several times."""
    with Running(current()):
        return functions.RunOperatorMultiple(op_def, num_runs)


def run_plan(plan_def: bytes) -> bool:
    """Run a plan."""
    with Running(current()):
        return functions.RunPlan(plan_def)


def run_plan_in_background(plan_def: bytes) -> BackgroundPlan:
    """Run a plan in a thread of its own."""
    return functions.RunPlanInBackground(plan_def)


def benchmark_net(name: Any, warmup_runs: int, main_runs: int, run_individual: bool) -> list[float]:
    """Measure how long a net takes."""
    return functions.BenchmarkNet(text(name), warmup_runs, main_runs, run_individual)


def benchmark_net_once(name: Any) -> float:
    """Measure how long one run of a net takes."""
    return functions.BenchmarkNetOnce(text(name))
