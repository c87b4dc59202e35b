"""Exporting to ONNX: against real Caffe2's own exporter, in time and in peak memory.

usage: scripts/bench convert [--chains 1000,4000,16000] [--layers 25] [--width 1024] [--repeats 5] [--threads 2]

Chains: nets of so many operators with small shared weights, NetDefs in memory to a ModelProto in memory. Both exporters
stay in processes of their own and take turns; the time per operator says whether time is linear.

Layers: so many FC layers with large weights, from the files to a file, and from NetDefs in memory to a ModelProto in
memory, each time in a fresh process. Memory is the resident set at its peak during that, less what it was after the
imports: the NetDefs in memory count ("nets" is their share), the parsing of them does not.

Each side's models are run on onnxruntime and must agree. Prints medians and ranges; ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
from _measure import MEGA, Spread, caffe2, ours, ratio, run, take_turns

from caffe2_bridge.proto.caffe2_pb2 import NetDef

BATCH: Final = 2  # Caffe2's exporter runs the net to know its shapes: it wants a concrete batch
CHAIN_WIDTH: Final = 8
CHAIN_WEIGHTS: Final = 16
FLOAT: Final = 1  # TensorProto.FLOAT
RTOL, ATOL = 1e-3, 1e-4
Array = np.ndarray[Any, Any]


def main() -> int:
    """Measure, print, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--chains", default="1000,4000,16000", help="numbers of operators; '' for none")
    parser.add_argument("--layers", type=int, default=25, help="number of FC layers; 0 for none")
    parser.add_argument("--width", type=int, default=1024, help="features of each FC layer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    chains = [int(text) for text in options.chains.split(",") if text]
    equal = True
    if chains:
        print(
            "chains of operators, in memory     seconds   (min..max)   us/operator   Caffe2's   us/operator   ours/it"
        )
    for length in chains:
        with tempfile.TemporaryDirectory() as folder:
            equal &= compare_chain(length, Path(folder), options.threads, options.repeats)
    if options.layers:
        with tempfile.TemporaryDirectory() as folder:
            equal &= compare_layers(options.layers, options.width, Path(folder), options.threads, options.repeats)
    return 0 if equal else 1


def chain(length: int) -> tuple[NetDef, NetDef]:
    """Return a net of ``length`` operators, one after the other, many in place, and the net of its small weights."""
    generator = np.random.default_rng(0)
    net = NetDef(name="chain", external_input=["x"], external_output=["y"])
    init = NetDef(name="chain_init")
    for i in range(CHAIN_WEIGHTS):
        fill(init, f"w{i}", generator.standard_normal((CHAIN_WIDTH, CHAIN_WIDTH)) / np.sqrt(CHAIN_WIDTH))
        fill(init, f"b{i}", generator.standard_normal(CHAIN_WIDTH))
    net.external_input.extend(op.output[0] for op in init.op)
    net.op.add(type="Sigmoid", input=["x"], output=["y"])
    for i, name in zip(range(length - 1), endless(), strict=False):
        which = i // 8 % CHAIN_WEIGHTS
        operands = {
            "Keep": ("Relu", ["y"], "z"),
            "FC": ("FC", ["y", f"w{which}", f"b{which}"], "f"),
            "Relu": ("Relu", ["f"], "y"),
            "Sigmoid": ("Sigmoid", ["y"], "y"),
            "Squash": ("Sigmoid", ["f"], "y"),
            "Add": ("Add", ["y", "z"], "y"),
            "Mul": ("Mul", ["y", "z"], "y"),
        }
        op_type, inputs, output = operands[name]
        net.op.add(type=op_type, input=inputs, output=[output])
    return net, init


def endless() -> Iterator[str]:
    """Yield the pattern of a chain; the Sigmoids keep its values in range."""
    while True:
        yield from ("Keep", "FC", "Relu", "Add", "Sigmoid", "Mul", "FC", "Squash")


def layers(count: int, width: int) -> tuple[NetDef, NetDef]:
    """Return a net of FC layers with Relus between them, and the net of its weights."""
    generator = np.random.default_rng(0)
    net = NetDef(name="layers", external_input=["x"], external_output=["y"])
    init = NetDef(name="layers_init")
    for i in range(count):
        fill(init, f"w{i}", generator.standard_normal((width, width), np.float32) * np.sqrt(2 / width))
        fill(init, f"b{i}", np.zeros(width))
        net.external_input.extend([f"w{i}", f"b{i}"])
        last = i == count - 1
        net.op.add(type="FC", input=["r" if i else "x", f"w{i}", f"b{i}"], output=["y" if last else "f"])
        if not last:
            net.op.add(type="Relu", input=["f"], output=["r"])
    return net, init


def fill(init: NetDef, name: str, array: Array) -> None:
    """Add the operator that fills a weight."""
    op = init.op.add(type="GivenTensorFill", output=[name])
    op.arg.add(name="shape", ints=array.shape)
    op.arg.add(name="values", floats=array.ravel())


def write(nets: tuple[NetDef, NetDef], width: int, folder: Path) -> int:
    """Write both nets and the description of their input; the size of the weights in bytes."""
    for net, name in zip(nets, ("predict_net.pb", "init_net.pb"), strict=True):
        (folder / name).write_bytes(net.SerializeToString())
    (folder / "value_info.json").write_text(json.dumps({"x": [FLOAT, [BATCH, width]]}))
    return 4 * sum(len(op.arg[1].floats) for op in nets[1].op)


def compare_chain(length: int, folder: Path, threads: int, repeats: int) -> bool:
    """Print one line; whether the models agree."""
    write(chain(length), CHAIN_WIDTH, folder)
    commands = {"ours": ours("convert.py", "--export", folder), "Caffe2": caffe2("export", folder)}
    seconds = take_turns(commands, repeats, threads)
    line = f"  {length:6} operators"
    for name in commands:
        spread = Spread.of(seconds[name])
        line += (
            f"   {name} {spread.median:.3f} ({spread.low:.3f}..{spread.high:.3f}) {spread.median / length * MEGA:5.0f}"
        )
    equal, error = agree(folder, CHAIN_WIDTH)
    print(f"{line}   {ratio(seconds['ours'], seconds['Caffe2']):.2f}   {error}", flush=True)
    return equal


def compare_layers(count: int, width: int, folder: Path, threads: int, repeats: int) -> bool:
    """Print a table of time and memory; whether the models agree."""
    weights = write(layers(count, width), width, folder)
    print(f"\n{count} FC layers of {width} x {width}, {weights / MEGA:.0f} MB of weights")
    print("                    seconds     min     max   Caffe2/it   peak MB   x weights    nets   imports MB")
    commands = {
        (who, how): ours("convert.py", "--once", folder, how) if who == "ours" else caffe2("once", folder, how)
        for how in ("files", "memory")
        for who in ("ours", "Caffe2")
    }
    done: dict[tuple[str, str], list[dict[str, float]]] = {key: [] for key in commands}
    for _ in range(repeats):
        for key, command in commands.items():
            done[key].append(json.loads(run(command, threads)))
    for (who, how), runs in done.items():
        seconds = [one["seconds"] for one in runs]
        spread = Spread.of(seconds)
        faster = ratio([one["seconds"] for one in done["Caffe2", how]], seconds)
        peak = Spread.of([one["peak"] - one["imported"] for one in runs]).median
        nets = Spread.of([one["before"] - one["imported"] for one in runs]).median
        imported = Spread.of([one["imported"] for one in runs]).median
        print(
            f"  {who:6} {how:8} {spread.median:9.3f} {spread.low:7.3f} {spread.high:7.3f}   {faster:9.2f}"
            f"   {peak / MEGA:7.0f}   {peak / weights:9.2f}  {nets / weights:6.2f}   {imported / MEGA:10.0f}"
        )
    equal, error = agree(folder, width)
    print(f"  {error}", flush=True)
    return equal


def agree(folder: Path, width: int) -> tuple[bool, str]:
    """Whether both models compute the same on onnxruntime, and the largest difference in words."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors alone: Caffe2's exporter lists weights as inputs, which is warned of
    feed = {"x": np.random.default_rng(1).standard_normal((BATCH, width), dtype=np.float32)}
    a, b = (
        ort.InferenceSession(folder / f"{name}.onnx", options, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for name in ("ours", "caffe2")
    )
    equal = bool(np.allclose(a, b, RTOL, ATOL))
    return equal, f"{'' if equal else 'OFF: '}the models differ by {np.abs(a - b).max():.1e} of {np.abs(b).max():.1e}"


def export(folder: str) -> None:
    """Serve exports of nets in memory; the first model is written, as proof."""
    answers = _worker.own_stdout()
    from caffe2_frontend import to_onnx

    predict, init = read(folder)
    inputs = given_inputs(folder)
    Path(folder, "ours.onnx").write_bytes(to_onnx(predict, init, inputs=inputs).SerializeToString())
    _worker.serve(answers, lambda: to_onnx(predict, init, inputs=inputs))


def once(folder: str, how: str) -> None:
    """Export once, from the files to a file, or from nets in memory to a model in memory."""
    answers = _worker.own_stdout()
    import caffe2_bridge as c2
    from caffe2_frontend import ExportOptions, convert, save_onnx, to_onnx

    inputs = given_inputs(folder)
    imported = _worker.resident()
    if how == "memory":
        predict, init = read(folder)
        _worker.measure(answers, lambda: to_onnx(predict, init, inputs=inputs), imported)
    else:
        _worker.measure(
            answers,
            lambda: save_onnx(
                convert(c2.load(folder), options=ExportOptions(inputs=inputs)), Path(folder, "ours.onnx")
            ),
            imported,
        )


def read(folder: str) -> tuple[NetDef, NetDef]:
    """Return the nets, parsed."""
    predict, init = (NetDef.FromString(Path(folder, name).read_bytes()) for name in ("predict_net.pb", "init_net.pb"))
    return predict, init


def given_inputs(folder: str) -> dict[str, Any]:
    """Return what is known of the inputs: their ranks, so that the model serves any size."""
    info = json.loads(Path(folder, "value_info.json").read_text())
    return {name: ("float32", [None] * len(shape)) for name, (_, shape) in info.items()}


WORKERS: Final[dict[str, Callable[..., None]]] = {"--export": export, "--once": once}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
