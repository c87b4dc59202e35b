"""An Int8 MobileNetV2: both forms of the export on onnxruntime, against real Caffe2.

Printed are milliseconds a call, each as a ratio to real Caffe2, and the largest and mean difference of the logits from
real Caffe2's, in steps of their scale. The exact form must differ in none; exits with 1 if it does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final, get_args

import _worker
import numpy as np
from _measure import Spread, ours, ratio, take_turns
from conformance.oracle import find_oracle
from workloads.mobilenet import SIGNED, mobilenet_v2

from caffe2_frontend import Int8, to_onnx

HERE: Final = Path(__file__).resolve().parent
CALLS: Final = 5
SHAPE: Final = (1, 3, 224, 224)


def main() -> int:
    """Measure and print; 1 where the exact form computes other logits than real Caffe2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="rounds of %(default)s turns each")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    python = find_oracle()
    if python is None:
        sys.exit("real Caffe2 is not installed; scripts/oracle installs it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nodes = _write(folder)
        forms = get_args(Int8)
        commands: dict[str, list[str | Path]] = {
            "caffe2": [
                python, HERE / "_caffe2_calls.py", folder, folder / "feed.npz", folder / "caffe2.npz", str(CALLS)
            ]
        }  # fmt: skip
        commands |= {form: ours("int8.py", "--onnx", form, str(options.threads), folder) for form in forms}
        seconds = take_turns(commands, options.repeats, options.threads)
        results = {contender: _logits(folder, contender) for contender in seconds}
        for contender, figures in seconds.items():
            spread = Spread.of([figure / CALLS * 1e3 for figure in figures])
            off = np.abs(results[contender] - results["caffe2"]) / SIGNED[0]
            print(
                f"{contender:<8} {nodes.get(contender, ''):>5} {spread.median:8.2f} ms a call "
                f"({spread.low:.2f} to {spread.high:.2f})   {ratio(figures, seconds['caffe2']):5.2f} x Caffe2   "
                f"steps off: {off.max():.1f} at most, {off.mean():.2f} on average"
            )
    return int(not np.allclose(results["exact"], results["caffe2"], rtol=0, atol=SIGNED[0] / 100))


def _write(folder: Path) -> dict[str, int]:
    """Write the nets, their exports and the input; return the number of nodes of each export."""
    predict, init = mobilenet_v2()
    (folder / "predict_net.pb").write_bytes(predict.SerializeToString())
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    np.savez(folder / "feed.npz", data=np.random.default_rng(1).standard_normal(SHAPE, np.float32))
    nodes = {}
    for form in get_args(Int8):
        model = to_onnx(predict, init, inputs={"data": ("float32", SHAPE)}, int8=form)
        (folder / f"{form}.onnx").write_bytes(model.SerializeToString())
        nodes[form] = len(model.graph.node)
    return nodes


def _logits(folder: Path, contender: str) -> np.ndarray:
    with np.load(folder / f"{contender}.npz", allow_pickle=False) as archive:
        return np.asarray(archive[archive.files[0]])


def run_onnx(form: str, threads: str, folder: str) -> None:
    """Serve a model on onnxruntime: save what it computes, then run when told."""
    answers = _worker.own_stdout()
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = int(threads)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(Path(folder, f"{form}.onnx"), options, providers=["CPUExecutionProvider"])
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as archive:
        feed = {name: archive[name] for name in archive.files}
    names = [value.name for value in session.get_outputs()]
    np.savez(Path(folder, f"{form}.npz"), **dict(zip(names, session.run(None, feed), strict=True)))

    def task() -> None:
        for _ in range(CALLS):
            session.run(None, feed)

    _worker.serve(answers, task)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--onnx"]:
        run_onnx(*sys.argv[2:])
    else:
        sys.exit(main())
