"""Memory: what a large model takes while it is loaded, run or exported, against onnxruntime on the exported file.

usage: python benchmarks/memory.py [--columns N]

The model has six convolutions and three large products, most of whose weights are in the first, as in VGG-16. Each
contender is a fresh process. Printed are the peak of resident memory and what is held after three runs, in megabytes
beyond that before and as a ratio to the weights, and how much of it is mapped from files, which the system takes back
when it needs memory.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
import onnxruntime as ort
from _measure import HERE, MEGA, ours, run
from conformance.recording import operator

from caffe2_backend import Predictor, Workspace
from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import convert, save_onnx, to_onnx

CHANNELS: Final = 512
SIZE: Final = 7
CONVOLUTIONS: Final = 6
RUNS: Final = 3
DATA: Final = (1, CHANNELS, SIZE, SIZE)
CHAR_RNN: Final = HERE.parent / "models" / "char_rnn"
CHAR_RNN_INPUTS: Final = {
    "input_blob": np.zeros((1, 1, 94), np.float32),
    "seq_lengths": np.ones(1, np.int32),
    "hidden_init": np.zeros((1, 1, 192), np.float32),
    "cell_init": np.zeros((1, 1, 192), np.float32),
}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, default=4096, help="of the products; default %(default)s: 551 MB")
    columns = parser.parse_args().columns
    with tempfile.TemporaryDirectory() as name:
        weights = _write_model(Path(name), columns)
        print(f"{weights / MEGA:.0f} MB of weights")
        for kind in WORKERS:
            answer = json.loads(run(ours("memory.py", kind, name), threads=2))
            figures = "  ".join(
                f"{what} {answer[what] / MEGA:6.0f} MB = {answer[what] / weights:4.2f} x the weights"
                for what in ("peak", "held")
            )
            print(f"{kind.strip('-'):<12} {figures}  of which mapped {answer['mapped'] / MEGA:.0f} MB")
    return 0


def _write_model(folder: Path, columns: int) -> int:
    """Write the nets; return the bytes of the weights."""
    random = np.random.default_rng(0)
    net, init = NetDef(name="large", external_input=["data"]), NetDef(name="init")
    total = 0

    def layer(op: OperatorDef, shape: tuple[int, ...]) -> None:
        nonlocal total
        for name, dims in ((op.input[1], shape), (op.input[2], shape[:1])):
            values = (random.random(dims, np.float32) - 0.5) * 0.02
            fill = init.op.add(type="GivenTensorFill", output=[name])
            fill.arg.add(name="shape", ints=dims)
            fill.arg.add(name="values").floats.extend(values.ravel())
            net.external_input.append(name)
            total += values.nbytes
        net.op.append(op)

    x = "data"
    for i in range(CONVOLUTIONS):
        layer(operator("Conv", [x, f"cw{i}", f"cb{i}"], [f"c{i}"], kernel=3, pad=1), (CHANNELS, CHANNELS, 3, 3))
        net.op.append(operator("Relu", [f"c{i}"], [f"c{i}"]))
        x = f"c{i}"
    sizes = (CHANNELS * SIZE * SIZE, columns, columns, 1000)
    for i in range(3):
        layer(operator("FC", [x, f"fw{i}", f"fb{i}"], [f"f{i}"]), (sizes[i + 1], sizes[i]))
        x = f"f{i}"
    net.external_output.append(x)
    (folder / "predict_net.pb").write_bytes(net.SerializeToString())
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    return total


def _answer(prepare: Callable[[], Callable[[], Any]]) -> None:
    """Measure a contender: ``prepare`` loads the model and returns what runs it once."""
    answers = _worker.own_stdout()
    Predictor(load(CHAR_RNN)).run(CHAR_RNN_INPUTS)  # what conversions and runs import does not count
    imported = _worker.resident()
    _worker.reset_peak()
    once = prepare()
    results: list[Any] = []
    for _ in range(RUNS):
        results.clear()
        results.append(once())  # held while memory is read
    highest = _worker.peak() - imported
    held = _worker.resident() - imported
    text = Path("/proc/self/status").read_text(encoding="ascii")
    mapped = int(re.findall(r"RssFile:\s+(\d+) kB", text)[0]) * 1024
    _worker.reply(answers, {"peak": highest, "held": held, "mapped": mapped})


def _data() -> Any:
    return np.random.default_rng(0).random(DATA, np.float32)


def onnxruntime(folder: str) -> None:
    """Measure a session of the exported file, with its weights in a second one."""
    path = Path(folder, "model.onnx")
    save_onnx(convert(load(folder)), path, external_data=1000)
    data = _data()

    def prepare() -> Callable[[], Any]:
        session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"data": data})

    _answer(prepare)


def predictor(folder: str) -> None:
    """Measure a Predictor of the folder."""
    data = _data()

    def prepare() -> Callable[[], Any]:
        runner = Predictor(folder)
        return lambda: runner.run({"data": data})

    _answer(prepare)


def workspace(folder: str) -> None:
    """Measure a Workspace with the blobs of the init net."""
    data = _data()

    def prepare() -> Callable[[], Any]:
        space, model = Workspace(), load(folder)
        space.run_net_once(model.init)
        space.feed("data", data)
        name = space.create_net(model.predict_net)
        return lambda: space.run_net(name)

    _answer(prepare)


def export(folder: str) -> None:
    """Measure an export in memory: the protobuf is held, one of those that three exports return."""

    def prepare() -> Callable[[], Any]:
        model = load(folder)
        return lambda: to_onnx(model, inputs={"data": (np.float32, DATA)})

    _answer(prepare)


WORKERS: Final[dict[str, Callable[[str], None]]] = {
    "--onnxruntime": onnxruntime,
    "--predictor": predictor,
    "--workspace": workspace,
    "--export": export,
}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
