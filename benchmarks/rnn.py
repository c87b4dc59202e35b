"""Recurrent nets: exported and run on onnxruntime, against real Caffe2, PyTorch, and PyTorch's own export.

usage: scripts/bench rnn [--cells NAME,...] [--sizes T,N,D,H ...] [--all] [--threads 2] [--repeats 15] [--device cuda]

All compute the same from the same weights and inputs, and their results are compared. Prints, for each cell and size,
the median and the smallest time of every contender, and ratios: medians over the rounds of Caffe2's time by its time,
of its time by PyTorch's, and of the time of the net's matrix products alone by its time: the share of its limit that it
reaches. Exits with 1 where a result is off.

Every contender is a process of its own, since their thread pools disturb each other: a pool spins, in wait for more
work, and takes a core from whoever comes next. Within a process pools spin as they do by default, as that is how users
run them (a step of a Scan is too short to go to sleep after), but onnxruntime's is told to stop when a run ends, and
between two turns is a pause for those of PyTorch and Caffe2. A turn is one run to warm up the caches, and one with the
clock on. The contenders take turns, A B C, A B C ..., so that a busy moment of the machine hits all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import _worker
import numpy as np
from _measure import Spread, caffe2, ours, ratio, run, take_turns
from _products import run_products
from gpu import rnn as gpu_rnn
from workloads.cells import CELLS, Array, Size, sample, torch_weights

from caffe2_bridge import ConversionError
from caffe2_frontend import ExportOptions, Recurrent, convert, save_onnx

FIRST: Final = Size(100, 16, 256, 512)
MORE: Final = (FIRST, Size(20, 1, 64, 128), Size(500, 64, 128, 256))
ON_GPU: Final = (FIRST, Size(500, 64, 128, 256))
RTOL, ATOL = 1e-3, 1e-4
MILLI: Final = 1000
PRODUCTS: Final = "products alone"


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", default="LSTM,GRU,BasicRNN", help=f"of {','.join(CELLS)}, or 'all'")
    parser.add_argument("--sizes", nargs="+", type=_size, default=[FIRST], metavar="T,N,D,H")
    parser.add_argument("--all", action="store_true", help=f"sizes {'; '.join(map(str, MORE))}")
    parser.add_argument("--cuda-sizes", action="store_true", help=f"sizes {'; '.join(map(str, ON_GPU))}")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: beside PyTorch's cuDNN")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    names = list(CELLS) if options.cells == "all" else options.cells.split(",")
    unknown = [name for name in names if name not in CELLS]
    if unknown:
        parser.error(f"no cell {', '.join(unknown)}; there are {', '.join(CELLS)}")
    if options.device == "cuda":
        sizes = ON_GPU if options.cuda_sizes else MORE if options.all else options.sizes
        return gpu_rnn.run([(name, size) for size in sizes for name in names])
    equal = True
    for name in names:
        for size in MORE if options.all else options.sizes:
            print(f"\n{name}  {size}  float32, {options.threads} threads, {options.repeats} rounds", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                equal &= compare(name, size, Path(folder), options.threads, options.repeats)
    return 0 if equal else 1


def _size(text: str) -> Size:
    try:
        return Size(*map(int, text.split(",")))
    except (TypeError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r} is not T,N,D,H") from None


def compare(name: str, size: Size, folder: Path, threads: int, repeats: int) -> bool:
    """Measure all forms of one net and print the table; whether all results are equal."""
    cell = CELLS[name]
    given = sample(cell, size)
    (folder / "net.pb").write_bytes(given.net.SerializeToString())
    _save(folder / "feed.npz", given.inputs)
    _save(folder / "all.npz", {**given.inputs, **given.weights})
    commands = {
        "Caffe2": caffe2("run", folder / "net.pb", folder / "all.npz", folder / "Caffe2.npz"),
        PRODUCTS: ours("rnn.py", "--products", name, ",".join(map(str, size)), str(threads)),
    }
    operators = {}
    if cell.module and importlib.util.find_spec("torch"):
        _save(folder / "weights.npz", torch_weights(cell, given.weights))
        module = [cell.module, str(size.D), str(size.H), str(threads), str(folder)]
        run(ours("rnn.py", "--torch-export", *module), threads)
        commands["torch"] = ours("rnn.py", "--torch", *module)
        commands["torch.onnx"] = ours("rnn.py", "--onnx", "torch.onnx", str(threads), folder)
    inputs = {name: (str(array.dtype), [None] * array.ndim) for name, array in given.inputs.items()}
    init = given.init_net()
    for form in get_args(Recurrent):
        try:
            model = convert(given.net, init, ExportOptions(inputs=inputs, recurrent=form))
        except ConversionError as error:
            print(f"  {form}: {error.errors[0].reason}")
            continue
        save_onnx(model, folder / f"{form}.onnx")
        kinds = (node.op_type for node in model.graph.all_nodes())
        operators[form] = next((kind for kind in kinds if kind in ("LSTM", "GRU", "RNN", "Scan", "Loop")), "")
        commands[form] = ours("rnn.py", "--onnx", form, str(threads), folder)
    seconds = take_turns(commands, repeats, threads)
    return print_table(seconds, operators, folder)


def print_table(seconds: dict[str, list[float]], operators: dict[str, str], folder: Path) -> bool:
    """Print times, ratios and errors; return whether all results are equal to Caffe2's."""
    expected = _outputs(folder, "Caffe2")
    equal = True
    print("  contender          median ms     min     max   Caffe2/it   it/torch   products/it   largest error")
    for name, taken in seconds.items():
        spread = Spread.of(taken)
        faster = ratio(seconds["Caffe2"], taken)
        to_torch = f"{ratio(taken, seconds['torch']):10.2f}" if "torch" in seconds else " " * 10
        reached = ratio(seconds[PRODUCTS], taken)
        line = f"{spread.median * MILLI:9.2f} {spread.low * MILLI:7.2f} {spread.high * MILLI:7.2f}"
        line += f"   {faster:9.2f} {to_torch}   {reached:11.2f}"
        if name == PRODUCTS:
            print(f"  {name:18} {line}", flush=True)
            continue
        off = [float(np.abs(a - b).max()) for a, b in zip(_outputs(folder, name), expected, strict=True)]
        good = all(np.allclose(a, b, RTOL, ATOL) for a, b in zip(_outputs(folder, name), expected, strict=True))
        equal &= good
        label = f"{name} {operators[name]}" if name in operators else name
        print(f"  {label:18} {line}   {max(off):.1e}{'' if good else '   OFF'}", flush=True)
    return equal


def _save(path: Path, arrays: Mapping[str, Any]) -> None:
    np.savez(path, **arrays)


def _outputs(folder: Path, name: str) -> list[Array]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
        return [archive[key] for key in archive.files]


def run_onnx(name: str, threads: str, folder: str) -> None:
    """Serve a model on onnxruntime: save what it computes, then run when told."""
    answers = _worker.own_stdout()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(Path(folder, f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as archive:
        feed = {key: archive[key] for key in archive.files if key in wanted}
    np.savez(Path(folder, f"{name}.npz"), *session.run(None, feed))
    _worker.serve(answers, lambda: session.run(None, feed), warm=1)


def run_torch(kind: str, features: str, width: str, threads: str, folder: str) -> None:
    """Serve a module of torch.nn: save what it computes, then run when told."""
    answers = _worker.own_stdout()
    import torch

    torch.set_num_threads(int(threads))
    module, inputs = _module(kind, int(features), int(width), folder)
    with torch.no_grad():
        steps, last = module(*inputs)
        results = [steps, *(last if isinstance(last, tuple) else [last])]
        np.savez(Path(folder, "torch.npz"), *(result.numpy() for result in results))
        _worker.serve(answers, lambda: module(*inputs), warm=1)


def export_torch(kind: str, features: str, width: str, _threads: str, folder: str) -> None:
    """Write PyTorch's own export of a module, for any T and N where PyTorch can."""
    _worker.own_stdout()
    import torch

    module, inputs = _module(kind, int(features), int(width), folder)
    steps, batch = torch.export.Dim("T"), torch.export.Dim("N")
    state = ({1: batch}, {1: batch}) if kind == "LSTM" else {1: batch}
    torch.onnx.export(
        module,
        inputs,
        Path(folder, "torch.onnx.onnx"),
        input_names=["input", "init_0", "init_1"][: 3 if kind == "LSTM" else 2],
        dynamic_shapes=({0: steps, 1: batch}, state),
        external_data=False,
        verbose=False,
    )


def _module(kind: str, features: int, width: int, folder: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the module, and its arguments."""
    import torch

    module = getattr(torch.nn, kind)(features, width).eval()
    with np.load(Path(folder, "weights.npz"), allow_pickle=False) as weights:
        module.load_state_dict({name: torch.from_numpy(weights[name]) for name in weights.files})
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as feed:
        sequence, *states = (torch.from_numpy(feed[name]) for name in ("input", "init_0", "init_1") if name in feed)
    return module, (sequence, tuple(states) if kind == "LSTM" else states[0])


WORKERS: Final[dict[str, Callable[..., None]]] = {
    "--onnx": run_onnx,
    "--torch": run_torch,
    "--torch-export": export_torch,
    "--products": run_products,
}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
