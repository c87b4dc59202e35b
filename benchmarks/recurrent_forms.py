"""Recurrent cells as the fused operator and as a Scan: the ratios that the form ``auto`` chooses by.

usage: scripts/bench recurrent_forms [--cells NAME,...] [--widths H ...] [--sizes T,N ...] [--repeats 15] [--threads 1]

Prints for each cell and number of features H the processor time of the fused operator over that of the Scan, for each
number of steps T and rows N, marked with * where ``auto`` chooses the slower one. Both forms are sessions of one
process that take turns; a figure is the median over the rounds of the ratio of one round. The table of what ``auto``
chooses is frontend/caffe2_frontend/recurrent/fastest_form.py.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from _measure import ratio
from workloads.cells import CELLS, Size, sample

from caffe2_frontend import Recurrent, to_onnx

WIDTHS: Final = (16, 32, 64, 96, 128, 256, 512)
SIZES: Final = ((20, 1), (100, 1), (50, 16), (50, 64))
FORMS: Final[tuple[Recurrent, ...]] = ("fused", "scan")
# A turn takes at least this long, so that short runs are repeated within it.
TURN_SECONDS: Final = 0.01


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", default="LSTM,GRU,GRU_reset_first,BasicRNN", help=f"of {','.join(CELLS)}")
    parser.add_argument("--widths", nargs="+", type=int, default=WIDTHS, metavar="H")
    parser.add_argument("--sizes", nargs="+", type=_size, default=SIZES, metavar="T,N")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    columns = "".join(f"{f'T={steps} N={rows}':>14}" for steps, rows in options.sizes)
    print(f"{'cell':16}{'H':>5}{columns}{'geometric':>12}", flush=True)
    for name in options.cells.split(","):
        for width in options.widths:
            sizes = [Size(steps, rows, width, width) for steps, rows in options.sizes]
            ratios = [measure(name, size, options.repeats, options.threads) for size in sizes]
            fused = [chooses_operator(name, size, size.N) for size in sizes]
            marked = [*zip(ratios, fused, strict=True)]
            mean = (statistics.geometric_mean(ratios), chooses_operator(name, sizes[0], None))
            figures = "".join(f"{figure:13.2f}{_mark(figure, chosen)}" for figure, chosen in marked)
            print(f"{name:16}{width:5}{figures}{mean[0]:11.2f}{_mark(*mean)}", flush=True)


def _mark(figure: float, chosen: bool) -> str:
    return " " if (figure < 1) is chosen else "*"


def chooses_operator(name: str, size: Size, rows: int | None) -> bool:
    """Whether the form ``auto`` of a cell is the fused operator, for this many rows or an unknown number."""
    given = sample(CELLS[name], size)
    inputs = {
        blob: (str(given.inputs[blob].dtype), [rows if letter == "N" else None for letter in dims])
        for blob, dims in CELLS[name].inputs.items()
    }
    model = to_onnx(given.net, given.init_net(), inputs=inputs)
    return any(node.op_type in ("LSTM", "GRU", "RNN") for node in model.graph.node)


def _size(text: str) -> tuple[int, int]:
    steps, _, rows = text.partition(",")
    return int(steps), int(rows)


def measure(name: str, size: Size, repeats: int, threads: int) -> float:
    """Return the time of the fused operator over that of the Scan, for one cell and size."""
    given = sample(CELLS[name], size)
    inputs = {blob: (str(array.dtype), [None] * array.ndim) for blob, array in given.inputs.items()}
    runs = []
    for form in FORMS:
        model = to_onnx(given.net, given.init_net(), inputs=inputs, recurrent=form)
        runs.append(_runner(model.SerializeToString(), given.inputs, threads))
    for results in zip(*(run() for run in runs), strict=True):
        np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-4)
    once = [_seconds(run, 1) for run in runs]
    times = max(1, round(TURN_SECONDS / max(once)))
    rounds = [[_seconds(run, times) for run in runs] for _ in range(repeats)]
    fused, scan = zip(*rounds, strict=True)
    return ratio(fused, scan)


def _runner(model: bytes, feed: dict[str, Any], threads: int) -> Callable[[], list[Any]]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    kept = {name: array for name, array in feed.items() if name in wanted}
    return lambda: session.run(None, kept)


def _seconds(run: Callable[[], object], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        run()
    return time.process_time() - start


if __name__ == "__main__":
    main()
