"""The NetDef toolkit on large nets: against real Caffe2's get_ssa and Detectron2's definitions.

usage: scripts/bench toolkit [--sizes 1000,10000,100000] [--most 10000] [--repeats 3]

Chains of operators, and random nets in which each operator reads two of the last hundred blobs. Each function runs on
each size; the last column says how time grows from the smallest size to the largest, per operator: 1.0 is linear.

Detectron2's dead-end removal and device inference are stated again here as they are defined, list searches included:
they run up to ``--most`` operators, the first being quadratic. Results of both sides must agree. Times are
processor seconds, medians.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from _measure import HERE
from conformance.oracle import find_oracle

from caffe2_bridge import (
    assign_device_option,
    fuse_copies,
    get_ssa,
    infer_device_type,
    insert_copies,
    place,
    remove_dead_end_ops,
    rename_op_output,
    ssa_rewrite,
)
from caffe2_bridge.devices import Device
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

WINDOW: Final = 100
PLACED: Final = 10_000  # the largest net that place is timed on
Task = Callable[[NetDef], Any]


def chain(size: int) -> NetDef:
    """Return a net of one operator after another."""
    ops = [OperatorDef(type="Relu", input=[f"b{i}"], output=[f"b{i + 1}"]) for i in range(size)]
    return NetDef(name="chain", op=ops, external_input=["b0"], external_output=[f"b{size}"])


def dag(size: int) -> NetDef:
    """Return a net whose operators read two recent blobs; about a tenth are dead ends."""
    generator = random.Random(0)  # noqa: S311 - the same net each time, no secret
    ops = []
    for index in range(size):
        read = [f"b{generator.randrange(max(0, index - WINDOW), index + 1)}" for _ in range(2)]
        ops.append(OperatorDef(type="Add", input=read, output=[f"b{index + 1}"]))
    return NetDef(name="dag", op=ops, external_input=["b0"], external_output=[f"b{size}"])


class Costs:
    """Every seventh operator cannot run on the GPU."""

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        """Return a low cost on the GPU; None where it cannot run there."""
        number = int(op.output[0][1:])
        return (1.0 if number % 7 else None) if device.is_gpu else float(number % 5 + 1)

    def transfer(self, _: str) -> float:
        """Return the cost of two operators."""
        return 2.0


def dead_ends_as_defined(net: NetDef) -> list[int]:
    """Return what Detectron2 keeps: its definition, with a reader that stays in the place of all readers."""
    ssa, versions = get_ssa(net)
    outputs = [(name, versions[name]) for name in net.external_output]
    removed: set[int] = set()
    for index in reversed(range(len(ssa))):
        readers = [i for i in range(len(ssa)) if any(blob in ssa[i][0] for blob in ssa[index][1])]
        if not any(blob in outputs for blob in ssa[index][1]) and all(i in removed for i in readers):
            removed.add(index)
    return [index for index in range(len(ssa)) if index not in removed]


def devices_as_defined(net: NetDef) -> dict[tuple[str, int], str]:
    """Sweep once forward and once back: enough for these nets, where all operands of an operator are in one place."""
    ssa, versions = get_ssa(net)
    known = {("b0", 0): "gpu"}
    order = list(range(len(ssa)))
    for index in (*order, *reversed(order)):
        blobs = [*ssa[index][0], *ssa[index][1]]
        found = {known[blob] for blob in blobs if blob in known}
        if len(found) > 1:
            raise RuntimeError(f"conflicting status at {index}")
        known.update((blob, kind) for kind in found for blob in blobs)
    missing = [(name, last) for name, last in versions.items() if (name, last) not in known]
    if missing:
        raise RuntimeError(f"Can not infer the status for {missing[0]}")
    return known


OURS: Final[dict[str, Task]] = {
    "get_ssa": get_ssa,
    "ssa_rewrite": ssa_rewrite,
    "remove_dead_end_ops": remove_dead_end_ops,
    "rename_op_output": lambda net: rename_op_output(net, 0, 0, "renamed"),
    "infer_device_type": lambda net: infer_device_type(net, {("b0", 0): "gpu"}),
    "assign_device_option": lambda net: assign_device_option(net, None, {"b0": "cuda:1"}),
    "insert_copies": insert_copies,
    "fuse_copies": fuse_copies,
    "place": lambda net: place(net, Costs(), inputs={"b0": "cpu"}),
}


def seconds(task: Task, net: NetDef) -> tuple[float, Any]:
    """Return the time of one run, and what it gave."""
    gc.collect()
    start = time.process_time()
    result = task(net)
    return time.process_time() - start, result


def of_caffe2(net: NetDef, repeats: int) -> float:
    """Return the median of the seconds of real Caffe2's own get_ssa on the same net, in its own process."""
    python = find_oracle()
    if python is None:
        sys.exit("real Caffe2 is not installed; scripts/oracle installs it")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "net.pb")
        path.write_bytes(net.SerializeToString())
        command = [python, HERE / "_caffe2_ssa.py", path, str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return statistics.median(json.loads(done.stdout.splitlines()[-1])["seconds"])


def rows(
    make: Callable[[int], NetDef], sizes: list[int], most: int, repeats: int
) -> Iterator[tuple[str, list[float | None]]]:
    """Yield a row of medians for each function and its peers."""
    nets = [make(size) for size in sizes]
    for name, task in OURS.items():
        fit = [net for net in nets if name != "place" or len(net.op) <= PLACED]
        found = [statistics.median(seconds(task, net)[0] for _ in range(repeats)) for net in fit]
        yield name, [*found, *[None] * (len(nets) - len(fit))]
        if name == "get_ssa":
            yield "  real Caffe2", [of_caffe2(net, repeats) for net in nets]
        if name in PEERS:
            small = [net for net in nets if len(net.op) <= most]
            yield "  as defined", [seconds(PEERS[name], net)[0] for net in small] + [None] * (len(nets) - len(small))


PEERS: Final[dict[str, Task]] = {"remove_dead_end_ops": dead_ends_as_defined, "infer_device_type": devices_as_defined}


def agree(net: NetDef) -> bool:
    """Whether both sides give the same."""
    kept = [net.op[index].output[0] for index in dead_ends_as_defined(net)]
    return kept == [op.output[0] for op in remove_dead_end_ops(net).op] and (
        devices_as_defined(net) == infer_device_type(net, {("b0", 0): "gpu"})
    )


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--most", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    for make in (chain, dag):
        if not agree(make(1000)):
            print("the two sides do not agree", file=sys.stderr)
            return 1
        print(f"{make.__name__:22}" + "".join(f"{size:>12,}" for size in sizes) + "   growth per operator")
        for name, found in rows(make, sizes, options.most, options.repeats):
            known = [(time_, size) for time_, size in zip(found, sizes, strict=True) if time_ is not None]
            growth = (known[-1][0] / known[-1][1]) / (known[0][0] / known[0][1])
            cells = "".join(f"{'-' if time_ is None else f'{time_:.3f} s':>12}" for time_ in found)
            print(f"{name:22}{cells}   {growth:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
