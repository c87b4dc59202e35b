"""Optimizers on rows of tables: a step in this project's Workspace, in real Caffe2, and in PyTorch where it has one.

A step looks 500 rows of 32 floats up and updates them, in tables of 1,000, 100,000 and 1,000,000 rows; their ids are
distinct, or drawn by Zipf's law, as words and products are. Printed are microseconds of a step, medians of turns, and
ratios of these. The tables of 1,000 rows are compared after one step. With ``--programs``: a step of a whole program,
and its feeds, with each optimizer of caffe2.python.optimizer that updates rows (_table_program.py).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from _measure import Spread, caffe2_files, ours, ratio, take_turns
from conformance.oracle import find_oracle
from conformance.recording import operator
from workloads.training import WIDTH, Arrays, Workload

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

HERE: Final = Path(__file__).resolve().parent
ROWS: Final = (1_000, 100_000, 1_000_000)
TOUCHED: Final = 500
STEPS: Final = 200
RTOL, ATOL = 1e-4, 1e-5
# The update of each optimizer: m and n have the table's shape, r a number and nz two for each row or element.
UPDATES: Final[dict[str, OperatorDef]] = {
    "SGD": operator("ScatterWeightedSum", ["table", "one", "ids", "grad", "lr"], ["table"]),
    "SparseMomentumSGDUpdate": operator(
        "SparseMomentumSGDUpdate", ["grad", "m", "lr", "table", "ids"], ["step", "m", "table"], momentum=0.9
    ),
    "SparseAdagrad": operator("SparseAdagrad", ["table", "m", "ids", "grad", "lr"], ["table", "m"]),
    "RowWiseSparseAdagrad": operator("RowWiseSparseAdagrad", ["table", "r", "ids", "grad", "lr"], ["table", "r"]),
    "SparseAdam": operator("SparseAdam", ["table", "m", "n", "ids", "grad", "lr", "t"], ["table", "m", "n"]),
    "RowWiseSparseAdam": operator(
        "RowWiseSparseAdam", ["table", "m", "r", "ids", "grad", "lr", "t"], ["table", "m", "r"]
    ),
    "SparseAdadelta": operator("SparseAdadelta", ["table", "m", "n", "ids", "grad", "lr"], ["table", "m", "n"]),
    "SparseStorm": operator("SparseStorm", ["table", "m", "one", "grad", "ids", "lr"], ["table", "m", "one"]),
    "SparseFtrl": operator("SparseFtrl", ["table", "nz", "ids", "grad"], ["table", "nz"]),
    "SparseWngrad": operator("SparseWngrad", ["table", "one", "ids", "grad", "lr"], ["table", "one"]),
}  # fmt: skip

# The optimizers that PyTorch has for gradients of rows, by their names in ``torch_step``.
IN_TORCH: Final = {"SGD": "sgd", "SparseAdagrad": "adagrad", "SparseAdam": "adam"}
# The optimizers of caffe2.python.optimizer that update rows, with their options.
PROGRAMS: Final = ("sgd", "sgd momentum=0.9", "adagrad", "adam", "adam enableRAdam=1", "wngrad", "storm", "adadelta")


def workload(optimizer: str, rows: int, *, zipf: bool) -> Workload:
    """Return a step of an optimizer on a table of so many rows."""
    random = np.random.default_rng(0)
    update = UPDATES[optimizer]
    shapes = {"table": (rows, WIDTH), "m": (rows, WIDTH), "n": (rows, WIDTH), "r": (rows,), "nz": (rows, WIDTH, 2)}
    init = [
        operator("ConstantFill", [], [name], shape=list(shape), value=0.1)
        for name, shape in {**shapes, "one": (1,)}.items()
        if name in update.input
    ]
    init += [op for op in (operator("ConstantFill", [], ["lr"], shape=[1], value=-1e-3),) if "lr" in update.input]
    if optimizer in ("SGD", "SparseWngrad"):
        next(op for op in init if op.output[0] == "one").arg[1].f = 1.0
    ids = random.choice(rows, TOUCHED, replace=False)
    feed: Arrays = {"ids": np.minimum(random.zipf(1.2, TOUCHED), rows) - 1 if zipf else ids}
    feed["grad"] = random.standard_normal((TOUCHED, WIDTH)).astype(np.float32)
    counter = [operator("Iter", ["t"], ["t"])] if "t" in update.input else []
    if counter:
        feed["t"] = np.zeros(1, np.int64)
    net = NetDef(name="sparse", op=[operator("Gather", ["table", "ids"], ["found"]), *counter, update])
    net.external_input.extend([*feed, *(op.output[0] for op in init)])
    return Workload(net, NetDef(name="init", op=init), feed, "found", others=("table",) if rows == ROWS[0] else ())


def main() -> int:
    """Measure and print; 1 where results differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of turns (default: %(default)s)")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="of tables (default: %(default)s)")
    parser.add_argument("--processor-time", action="store_true", help="time of the process: for busy machines")
    parser.add_argument("--only", nargs="*", default=list(UPDATES), choices=list(UPDATES), help="the optimizers to run")
    parser.add_argument("--programs", action="store_true", help="whole programs")
    options = parser.parse_args()
    python = find_oracle()
    if python is None:
        sys.exit("real Caffe2 is not installed; scripts/oracle installs it")
    clock = "processor" if options.processor_time else "seconds"
    if options.programs:
        for kind in PROGRAMS:
            for rows in options.rows:
                arguments = [kind, str(rows), str(STEPS)]
                commands: dict[str, list[str | Path]] = {
                    "workspace": ours("_table_program.py", caffe2_files(python), *arguments),
                    "caffe2": [python, HERE / "_table_program.py", "", *arguments],
                }
                _print(f"{kind:<16} {rows:>9,} rows", take_turns(commands, options.repeats, 1, clock=clock))
        return 0
    agreed = True
    for name in options.only:
        for rows, zipf in ((rows, zipf) for rows in options.rows for zipf in (False, True)):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) / "work"
                workload(name, rows, zipf=zipf).write(folder)
                calls = ["1", str(STEPS)]
                files = [folder / "feed.npz", folder / "caffe2.npz"]
                commands = {
                    "workspace": ours("train.py", "--workspace", folder, *calls, "1"),
                    "caffe2": [python, HERE / "_caffe2_calls.py", folder, *files, *calls],
                }
                if name in IN_TORCH and importlib.util.find_spec("torch"):
                    commands["torch"] = ours(
                        "train.py", "--torch", folder, str(STEPS), "1", f"embedding {IN_TORCH[name]} {rows}"
                    )
                label = f"{name:<24} {rows:>9,} rows, {'Zipf' if zipf else 'distinct':<8}"
                _print(label, take_turns(commands, options.repeats, 1, clock=clock))
                agreed &= _agrees(folder, label)
    return int(not agreed)


def _print(label: str, seconds: dict[str, list[float]]) -> None:
    """Print microseconds of a step, and this project's time over the others'."""
    micro = {key: Spread.of([s / STEPS * 1e6 for s in found]).median for key, found in seconds.items()}
    others = "".join(
        f"   {key} {micro[key]:8.1f} us   {ratio(seconds['workspace'], found):5.2f} x"
        for key, found in seconds.items()
        if key != "workspace"
    )
    print(f"{label} {micro['workspace']:8.1f} us{others}", flush=True)


def _agrees(folder: Path, label: str) -> bool:
    with np.load(folder / "workspace.npz") as found, np.load(folder / "caffe2.npz") as expected:
        wrong = [b for b in expected.files if not np.allclose(found[b], expected[b], rtol=RTOL, atol=ATOL)]
    if wrong:
        print(f"{label}: {', '.join(wrong)} after one step are not real Caffe2's")
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
