"""Measure how long nets take in the current workspace."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import time
from collections import defaultdict

from caffe2_backend.runtime.devices.device_names import with_net_device
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat.workspace.named_workspaces import current
from caffe2_compat.workspace.names import GetNetName

_MILLISECONDS = 1000


def BenchmarkNet(net: object, warmup_runs: int, main_runs: int, run_individual: bool) -> list[float]:
    """Run a net that was created, and print and return how long a run takes.

    Args:
        net: the net, or its name.
        warmup_runs: runs before the measurement.
        main_runs: runs that are measured, at least 1.
        run_individual: whether to measure each operator, too. Operators then run one at a time, without the fusions
            of the net as a whole, so that their times add up to more than that of the net.

    Returns:
        Milliseconds per run: of the net, then of each operator in order (0 unless ``run_individual``).

    Raises RunError if the net does not exist, a count is out of range, or a run fails.
    """
    name = GetNetName(net)
    proto = current().net(name)
    if warmup_runs < 0 or main_runs < 1:
        raise RunError(f"warmup_runs must not be negative and main_runs at least 1, not {warmup_runs} and {main_runs}")
    current().run_net(name, warmup_runs)
    whole = _milliseconds(name, main_runs)
    print(f"Milliseconds per iter: {whole:.6g}. Iters per second: {_MILLISECONDS / whole:.6g}")  # noqa: T201 - as in Caffe2
    if not run_individual:
        return [whole, *(0.0 for _ in proto.op)]
    times = _operator_times(proto, main_runs)
    by_type: defaultdict[str, float] = defaultdict(float)
    for index, (op, milliseconds) in enumerate(zip(proto.op, times, strict=True)):
        print(f"Operator #{index} ({op.output[0] if op.output else ''}, {op.type}) {milliseconds:.6g} ms/iter")  # noqa: T201 - the same
        by_type[op.type] += milliseconds
    print("Time per operator type:")  # noqa: T201 - the same
    for op_type, milliseconds in sorted(by_type.items(), key=lambda item: -item[1]):
        print(f"{milliseconds:15.6g} ms. {op_type}")  # noqa: T201 - the same
    return [whole, *times]


def _operator_times(net: NetDef, runs: int) -> list[float]:
    """Return the milliseconds per run of each operator, run one at a time in order, after a round that converts."""
    operators = [with_net_device(op, net) for op in net.op]
    times = [0.0] * len(operators)
    for turn in range(runs + 1):
        for index, op in enumerate(operators):
            start = time.perf_counter()
            current().run_operator_once(op)
            if turn:
                times[index] += (time.perf_counter() - start) * _MILLISECONDS / runs
    return times


def BenchmarkNetOnce(net: object) -> float:
    """Run a net that was created once; return how long that took in milliseconds."""
    return _milliseconds(GetNetName(net), 1)


def _milliseconds(name: str, runs: int) -> float:
    start = time.perf_counter()
    current().run_net(name, runs)
    return (time.perf_counter() - start) * _MILLISECONDS / runs
