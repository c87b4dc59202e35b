"""Training steps: a net in this project's Workspace, the same net in real Caffe2, and the same step in PyTorch.

Workloads are the programs recorded in tests/golden/training (tiny nets), LeNet on 64 pictures, an MLP with products of
2048 x 2048 x 2048, updates of 200 rows of tables of 5,000 and of 500,000 rows, some repeated, and LSTMs: a character
model with Adagrad (T=32 N=16 D=94 H=192), and the gradients alone of a larger one (T=100 N=16 D=256 H=512), whose
gates are kept, or computed again in the backward steps, and those of a GRU and a basic RNN of that size. Printed are
milliseconds of a step, and ratios of this project's medians to the others'; of recurrent nets also the peak of
resident memory during a step, without that of the imports; then how the process grows over 5,000 steps.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
from _measure import MEGA, Spread, ours, run, take_turns
from conformance.oracle import find_oracle
from gpu import train as gpu_train
from workloads.recurrent_training import char_lstm, large_gru, large_lstm, large_rnn
from workloads.recurrent_training import torch_step as torch_lstm_step
from workloads.training import Workload, embedding, lenet, mlp, recorded, torch_step

HERE: Final = Path(__file__).resolve().parent
TINY: Final = ("regression", "mlp_adam", "mlp_rmsprop", "mlp_ftrl")
RECURRENT: Final[dict[str, Callable[[], Workload]]] = {
    "char lstm": char_lstm,
    "large lstm": large_lstm,
    "large lstm, recomputed": lambda: large_lstm(recompute=True),
    "large gru": large_gru,
    "large rnn": large_rnn,
}
CALLS: Final = {"lenet": 10, "mlp": 1, "char lstm": 10, **{name: 1 for name in RECURRENT if name.startswith("large")}}
STEPS: Final = 5_000
RTOL, ATOL = 1e-3, 1e-4


def workloads() -> dict[str, Callable[[], Workload]]:
    """Return how to make each workload."""
    made: dict[str, Callable[[], Workload]] = {name: lambda name=name: recorded(name) for name in TINY}  # type: ignore[misc]
    made["sparse_adagrad"] = lambda: recorded("sparse_adagrad")
    made["lenet"] = lenet
    made["mlp"] = mlp
    for kind in ("sgd", "adagrad"):
        for rows in (5_000, 500_000):
            made[f"embedding {kind} {rows}"] = lambda kind=kind, rows=rows: embedding(rows, kind)  # type: ignore[misc]
    made["embedding adagrad repeated"] = lambda: embedding(500_000, "adagrad", repeated=True)
    return {**made, **RECURRENT}


def main() -> int:
    """Measure and print; 1 where this project's loss differs from real Caffe2's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of turns (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each contender (default: %(default)s)")
    parser.add_argument("--each", action="store_true", help="call RunNet for each step, not once for all of a turn")
    parser.add_argument("--processor-time", action="store_true", help="time of the process: for busy machines")
    parser.add_argument("--only", nargs="*", default=list(workloads()), help="the workloads to run")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: beside PyTorch on the GPU")
    options = parser.parse_args()
    if options.device == "cuda":
        names = [name for name in options.only if name in gpu_train.ON_GPU]
        return gpu_train.run({name: workloads()[name]() for name in names}, RECURRENT)
    python = find_oracle()
    tiny, failed = [], False
    for name in options.only:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "work"
            workload = workloads()[name]()
            workload.write(folder)
            steps = CALLS.get(name, 200)
            calls = [str(steps), "1"] if options.each else ["1", str(steps)]
            commands: dict[str, list[str | Path]] = {
                "ours": ours("train.py", "--workspace", folder, *calls, str(options.threads))
            }
            if python is not None:
                files = [folder / "feed.npz", folder / "caffe2.npz"]
                commands["caffe2"] = [python, HERE / "_caffe2_calls.py", folder, *files, *calls]
            if name not in (*TINY, "sparse_adagrad") and _has_torch():
                commands["torch"] = ours("train.py", "--torch", folder, str(steps), str(options.threads), name)
            peaks: dict[str, int] = {}
            clock = "processor" if options.processor_time else "seconds"
            seconds = take_turns(commands, options.repeats, options.threads, peaks, clock)
            ratios = _print(name, steps, seconds, peaks if name in RECURRENT else {})
            if name in TINY and "caffe2" in ratios:
                tiny.append(ratios["caffe2"])
            failed |= python is not None and workload.exact and not _agrees(folder, workload.result, name)
    if tiny:
        print(f"tiny nets: geometric mean {math.exp(statistics.fmean(map(math.log, tiny))):.2f} x real Caffe2")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "work"
        recorded("mlp_adam").write(folder)
        before, after = map(int, run(ours("train.py", "--memory", folder), threads=1).split())
    print(f"{STEPS:,} steps of mlp_adam: {before:,} bytes, then {after:,} ({(after / before - 1) * 100:+.1f} %)")
    return int(failed)


def _print(name: str, steps: int, seconds: dict[str, list[float]], peaks: dict[str, int]) -> dict[str, float]:
    """Print a workload's line; return the ratios of this project's median to the others'."""
    spreads = {key: Spread.of([figure / steps * 1e3 for figure in figures]) for key, figures in seconds.items()}
    ratios = {key: spreads["ours"].median / spread.median for key, spread in spreads.items() if key != "ours"}
    texts = [f"{key} {s.median:9.4f} ms ({s.low:.4f} to {s.high:.4f})" for key, s in spreads.items()]
    texts += [f"{value:5.2f} x {key}" for key, value in ratios.items()]
    texts += [f"{key} {peak / MEGA:.0f} MB" for key, peak in peaks.items()]
    print(f"{name:<26}", "   ".join(texts), flush=True)
    return ratios


def _agrees(folder: Path, result: str, name: str) -> bool:
    one, other = (np.load(folder / f"{kind}.npz")[result] for kind in ("workspace", "caffe2"))
    if np.allclose(one, other, rtol=RTOL, atol=ATOL):
        return True
    print(f"{name}: the first loss is {one}, real Caffe2's is {other}")
    return False


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401 - whether it is there
    except ImportError:
        return False
    return True


def _prepared(folder: str, threads: int) -> tuple[Any, str, list[str]]:
    from caffe2_backend.runtime import SessionOptions, Workspace
    from caffe2_bridge.proto.caffe2_pb2 import NetDef

    space = Workspace(options=SessionOptions(threads=threads))
    space.run_net_once(NetDef.FromString(Path(folder, "init_net.pb").read_bytes()))
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as archive:
        for name in archive.files:
            space.feed(name, archive[name])
    net = NetDef.FromString(Path(folder, "predict_net.pb").read_bytes())
    space.create_net(net)
    space.run_net(net.name)
    return space, net.name, [name for name in net.external_output if name]


def workspace(folder: str, calls: str, iterations: str, threads: str) -> None:
    """Serve RunNet of this project's Workspace: some calls, of some iterations each."""
    answers = _worker.own_stdout()
    import onnxruntime

    import caffe2_backend

    del onnxruntime, caffe2_backend
    imported = _worker.resident()
    space, net, outputs = _prepared(folder, int(threads))
    np.savez(Path(folder, "workspace.npz"), **{name: space.fetch(name) for name in outputs})

    def task() -> None:
        for _ in range(int(calls)):
            space.run_net(net, int(iterations))

    _worker.serve(answers, task, warm=1, imported=imported)


def torch(folder: str, calls: str, threads: str, name: str) -> None:
    """Serve the same step in PyTorch."""
    answers = _worker.own_stdout()
    import torch as library

    library.set_num_threads(int(threads))
    imported = _worker.resident()
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as archive:
        make = torch_lstm_step if name in RECURRENT else torch_step
        step = make(name, {key: archive[key] for key in archive.files})
    assert step is not None

    def task() -> None:
        for _ in range(int(calls)):
            step()

    _worker.serve(answers, task, warm=1, imported=imported)


def memory(folder: str) -> None:
    """Print the resident bytes after 500 steps with the loss fetched, and after 5,000 more."""
    answers = _worker.own_stdout()
    space, net, outputs = _prepared(folder, 1)

    def steps(count: int) -> int:
        for _ in range(count):
            space.run_net(net)
            for name in outputs:
                space.fetch(name)
        return _worker.resident()

    print(steps(500), steps(STEPS), file=answers, flush=True)


WORKERS: Final[dict[str, Callable[..., None]]] = {"--workspace": workspace, "--torch": torch, "--memory": memory}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
