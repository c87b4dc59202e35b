"""Modules of to_torch: eager, operator by operator, exported and compiled, against layers of torch.nn and onnxruntime.

usage: scripts/bench to_torch [--cells NAME,...] [--size T,N,D,H] [--threads 2] [--repeats 15] [--clock processor]

All compute the same from the same weights and inputs, and their results are compared. Prints, for each cell, the median
time of every contender, and the median over the rounds of its time by that of the layer of torch.nn that is written by
hand. The contenders are processes that take turns, as in ``scripts/bench rnn``. Exits with 1 where a result is off.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
from _measure import Spread, ours, ratio, take_turns
from workloads.cells import CELLS, Size, sample, torch_weights

from caffe2_frontend import ExportOptions, convert, save_onnx

FIRST: Final = "100,16,256,512"
BY_HAND: Final = "torch.nn"
FORMS: Final = ("module", "operators", "exported", "compiled")  # the last by AOTInductor
RTOL, ATOL = 1e-3, 1e-4


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = ",".join(name for name, cell in CELLS.items() if cell.module)
    parser.add_argument("--cells", default="LSTM,GRU,BasicRNN", help=f"of {known}")
    parser.add_argument("--size", default=FIRST, metavar="T,N,D,H")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument(
        "--clock", choices=["seconds", "processor"], default="seconds", help="processor: on a busy machine"
    )
    options = parser.parse_args()
    unknown = [name for name in options.cells.split(",") if name not in known.split(",")]
    if unknown:
        parser.error(f"no cell {', '.join(unknown)}; there are {known}")
    equal = True
    for name in options.cells.split(","):
        print(f"\n{name}  {options.size}  float32, {options.threads} threads, {options.repeats} rounds", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            equal &= compare(name, options.size, Path(folder), options.threads, options.repeats, options.clock)
    return 0 if equal else 1


def compare(name: str, size: str, folder: Path, threads: int, repeats: int, clock: str) -> bool:
    """Measure all forms of one net and print the table; whether all results are equal."""
    cell = CELLS[name]
    extents = Size(*map(int, size.split(",")))
    given = sample(cell, extents)
    np.savez(folder / "feed.npz", **given.inputs)  # type: ignore[arg-type] # the arrays, by name
    np.savez(folder / "weights.npz", **torch_weights(cell, given.weights))  # type: ignore[arg-type] # as above
    inputs = {blob: (str(array.dtype), [None] * array.ndim) for blob, array in given.inputs.items()}
    save_onnx(convert(given.net, given.init_net(), ExportOptions(inputs=inputs)), folder / "onnxruntime.onnx")
    commands = {
        BY_HAND: ours("rnn.py", "--torch", cell.module, str(extents.D), str(extents.H), str(threads), folder),
        **{form: ours("to_torch.py", "--form", form, name, size, str(threads), folder) for form in FORMS},
        "onnxruntime": ours("rnn.py", "--onnx", "onnxruntime", str(threads), folder),
    }
    seconds = take_turns(commands, repeats, threads, clock=clock)
    expected, equal = _outputs(folder, "operators"), True
    print("  contender     median ms   it/torch.nn   largest difference from operators")
    for contender, taken in seconds.items():
        found = _outputs(folder, "torch" if contender == BY_HAND else contender)
        good = all(np.allclose(a, b, RTOL, ATOL) for a, b in zip(found, expected, strict=True))
        off = max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))
        equal &= good
        median, share = 1000 * Spread.of(taken).median, ratio(taken, seconds[BY_HAND])
        print(f"  {contender:12} {median:10.2f} {share:13.3f}   {off:.1e}{'' if good else '   OFF'}", flush=True)
    return equal


def _outputs(folder: Path, name: str) -> list[Any]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
        return [archive[key] for key in archive.files]


def run_form(form: str, name: str, size: str, threads: str, folder: str) -> None:
    """Serve a form of a module: save what it computes, then run when told."""
    answers = _worker.own_stdout()
    import torch

    from caffe2_torch import to_torch

    torch.set_num_threads(int(threads))
    given = sample(CELLS[name], Size(*map(int, size.split(","))))
    module = to_torch(given.net, given.init_net()).eval().requires_grad_(False)  # noqa: FBT003 - PyTorch's
    values = {blob: torch.from_numpy(given.inputs[blob]) for blob in module.inputs}
    program: Any = None
    if form in ("exported", "compiled"):  # for any T and N
        dynamic = tuple(dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for value in values.values())
        exported = torch.export.export(module, tuple(values.values()), dynamic_shapes=(dynamic,))
        program = exported.module()
    if form == "compiled":
        package = str(Path(folder, "model.pt2"))
        torch._inductor.aoti_compile_and_package(exported, package_path=package)  # noqa: SLF001 - where PyTorch has it
        program = torch._inductor.aoti_load_package(package)  # noqa: SLF001 - the same

    def task() -> Any:
        if program is not None:
            return program(*values.values())
        return tuple(module.run(values, module.outputs if form == "operators" else None).values())

    with torch.no_grad():
        np.savez(Path(folder, f"{form}.npz"), *(value.numpy() for value in task()))
        _worker.serve(answers, task, warm=1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--form"]:
        run_form(*sys.argv[2:])
    else:
        sys.exit(main())
