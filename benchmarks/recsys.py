"""Recommendation nets on the host: this project's Workspace and Predictor, real Caffe2, and PyTorch's EmbeddingBag.

DLRM-like (products of all pairs of vectors, SGD), wide and deep (means, SparseAdagrad) and CTR nets (weighted sums,
RowWiseSparseAdagrad), forward and in training, and the CTR net with fused 8-bit and 4-bit tables. Ids are drawn by
Zipf's law. A Predictor runs the forward nets, with tables that are parameters. Printed are milliseconds of a step, and
this project's time over the others'. PyTorch has no row-wise Adagrad among its optimizers: it does the element-wise
one. Results of the first step, tables that it updates among them, are compared with real Caffe2's, and PyTorch's
predictions and losses with this project's.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import _worker
import numpy as np
from _measure import Spread, ours, ratio, take_turns
from conformance.oracle import find_oracle
from workloads.recsys import MODELS, make

from caffe2_bridge import load
from caffe2_bridge.netdef.parameters import Parameter

HERE: Final = Path(__file__).resolve().parent
RTOL, ATOL = 1e-4, 1e-5
OWN: Final = ("workspace", "predictor")


def main() -> int:
    """Measure and print; 1 where results differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of turns (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of a turn (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each contender (default: %(default)s)")
    parser.add_argument("--each", action="store_true", help="call RunNet for each step, not once for all of a turn")
    parser.add_argument("--processor-time", action="store_true", help="time of the process: for busy machines")
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS), help="the nets to run")
    options = parser.parse_args()
    python = find_oracle()
    calls = [str(options.steps), "1"] if options.each else ["1", str(options.steps)]
    agreed = True
    for name in options.only:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "work"
            make(name).write(folder)
            commands = {"workspace": ours("train.py", "--workspace", folder, *calls, str(options.threads))}
            if not MODELS[name][1]:
                commands["predictor"] = ours(
                    "recsys.py", "--predictor", folder, str(options.steps), str(options.threads)
                )
            if python is not None:
                files = [folder / "feed.npz", folder / "caffe2.npz"]
                commands["caffe2"] = [python, HERE / "_caffe2_calls.py", folder, *files, *calls]
            commands["torch"] = ours("recsys.py", "--torch", folder, str(options.steps), str(options.threads), name)
            clock = "processor" if options.processor_time else "seconds"
            _print(name, options.steps, take_turns(commands, options.repeats, options.threads, clock=clock))
            agreed &= _agrees(folder, [kind for kind in commands if kind != "workspace"], name)
    return int(not agreed)


def _print(name: str, steps: int, seconds: dict[str, list[float]]) -> None:
    spreads = {key: Spread.of([figure / steps * 1e3 for figure in figures]) for key, figures in seconds.items()}
    texts = [f"{key} {s.median:7.4f} ms ({s.low:.4f} to {s.high:.4f})" for key, s in spreads.items()]
    pairs = [(own, key) for own in OWN if own in seconds for key in seconds if key not in OWN]
    texts += [f"{own} {ratio(seconds[own], seconds[key]):5.2f} x {key}" for own, key in pairs]
    print(f"{name:<24}", "   ".join(texts), flush=True)


def _agrees(folder: Path, kinds: list[str], name: str) -> bool:
    agreed = True
    with np.load(folder / "workspace.npz") as found:
        for kind in kinds:
            with np.load(folder / f"{kind}.npz") as expected:
                blobs = [b for b in expected.files if not np.allclose(found[b], expected[b], rtol=RTOL, atol=ATOL)]
            if blobs:
                print(f"{name}: {', '.join(blobs)} of {kind} after one step are not this project's")
                agreed = False
    return agreed


def predictor(folder: str, steps: str, threads: str) -> None:
    """Serve the step of a net in a Predictor, after one whose results are kept."""
    answers = _worker.own_stdout()
    from caffe2_backend import Predictor
    from caffe2_backend.runtime import SessionOptions

    model = load(folder)
    with np.load(Path(folder, "feed.npz")) as archive:
        feed = {name: archive[name] for name in archive.files}
    tables = {name: feed.pop(name) for name in list(feed) if name.startswith("table_")}
    parameters = {name: Parameter(name, table.dtype, table.shape, table.copy) for name, table in tables.items()}
    init = dataclasses.replace(model.init, parameters={**model.init.parameters, **parameters})
    run = Predictor(dataclasses.replace(model, init=init), options=SessionOptions(threads=int(threads))).run
    np.savez(Path(folder, "predictor.npz"), **run(feed))

    def task() -> None:
        for _ in range(int(steps)):
            run(feed)

    _worker.serve(answers, task, warm=1)


def torch(folder: str, steps: str, threads: str, name: str) -> None:
    """Serve the step of a net in PyTorch, after one whose results are kept."""
    answers = _worker.own_stdout()
    import torch as library
    from workloads.recsys_torch import TorchNet

    library.set_num_threads(int(threads))
    step = TorchNet(name, Path(folder)).step
    first = step()
    np.savez(Path(folder, "torch.npz"), **first)

    def task() -> None:
        for _ in range(int(steps)):
            step()

    _worker.serve(answers, task, warm=1)


WORKERS: Final[dict[str, Callable[..., None]]] = {"--predictor": predictor, "--torch": torch}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
