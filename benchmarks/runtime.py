"""Running a tiny net many times: a bare session of onnxruntime, this project's Predictor and Workspace, real Caffe2.

The net is models/char_rnn with T = 1 and N = 1, where what surrounds a run weighs most. Printed are microseconds a
call, each as a ratio to the bare session and to real Caffe2, and how the process grows over runs of changing T.

Then the cost of a cut: a net of small products with as many host operators (CountUp) between them, or with all of them
at its end, where they cut nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
from _measure import Spread, ours, ratio, run, take_turns
from conformance.oracle import find_oracle
from gpu import runtime as gpu_runtime

from caffe2_bridge import load
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

HERE: Final = Path(__file__).resolve().parent
CHAR_RNN: Final = HERE.parent / "models" / "char_rnn"
STATES: Final = {"hidden_init": "LSTM/hidden_state_last", "cell_init": "LSTM/cell_state_last"}
CALLS: Final = 1_000
RUNS_OF_CHANGING_T: Final = 10_000
LONGEST: Final = 40
RTOL, ATOL = 1e-3, 1e-4
CUTS: Final = 8


def main() -> int:
    """Measure and print; 1 where contenders compute different things."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of %(default)s turns each")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda: beside PyTorch on the GPU")
    options = parser.parse_args()
    if options.device == "cuda":
        return gpu_runtime.run()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_inputs(folder)
        commands: dict[str, list[str | Path]] = {
            kind: ours("runtime.py", f"--{kind}", folder)
            for kind in ("bare", "predictor", "workspace", "bare_loop", "run_many")
        }
        python = find_oracle()
        if python is not None:
            worker = HERE / "_caffe2_calls.py"
            commands["caffe2"] = [python, worker, CHAR_RNN, folder / "feed.npz", folder / "caffe2.npz", str(CALLS)]
        seconds = take_turns(commands, options.repeats, threads=1)
        for contender, figures in seconds.items():
            spread = Spread.of([figure / CALLS * 1e6 for figure in figures])
            text = f"{contender:<10} {spread.median:8.1f} us a call ({spread.low:.1f} to {spread.high:.1f})"
            text += f"   {ratio(figures, seconds['bare_loop' if contender == 'run_many' else 'bare']):5.2f} x bare"
            text += "_loop" if contender == "run_many" else ""
            if "caffe2" in seconds:
                text += f"   real Caffe2 takes {ratio(seconds['caffe2'], figures):5.2f} x as long"
            print(text)
        before, after = map(int, run(ours("runtime.py", "--memory", folder), threads=1).split())
        print(f"{RUNS_OF_CHANGING_T:,} runs with T of 1 to {LONGEST}: {before:,} bytes, then {after:,}", end=" ")
        print(f"({(after / before - 1) * 100:+.1f} %)")
        _print_cost_of_a_cut(options.repeats, folder)
        return _compare(folder, list(commands))


def _print_cost_of_a_cut(repeats: int, folder: Path) -> None:
    commands = {kind: ours("runtime.py", f"--{kind}", folder) for kind in ("cut", "whole")}
    seconds = take_turns(commands, repeats, threads=1)
    calls = {kind: Spread.of([figure / CALLS * 1e6 for figure in figures]) for kind, figures in seconds.items()}
    for kind, spread in calls.items():
        print(f"{CUTS} products and {CUTS} host operators, {kind:<5} {spread.median:8.1f} us a call", end=" ")
        print(f"({spread.low:.1f} to {spread.high:.1f})")
    print(f"a cut costs {(calls['cut'].median - calls['whole'].median) / (CUTS - 1):.1f} us")


def _write_inputs(folder: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(
        folder / "feed.npz",
        input_blob=random.random((1, 1, 94), np.float32),
        seq_lengths=np.ones(1, np.int32),
        hidden_init=random.random((1, 1, 192), np.float32),
        cell_init=random.random((1, 1, 192), np.float32),
    )


def _compare(folder: Path, contenders: list[str]) -> int:
    results = {}
    for name in contenders:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as archive:
            results[name] = {key: archive[key] for key in archive.files}
    for name, arrays in results.items():
        for blob, array in arrays.items():
            if not np.allclose(array, results["bare"][blob], rtol=RTOL, atol=ATOL):
                print(f"{name} computes another {blob}")
                return 1
    return 0


def _feed(folder: str) -> dict[str, Any]:
    with np.load(Path(folder, "feed.npz"), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _serve(folder: str, kind: str, once: Callable[[], Any], results: dict[str, Any], answers: Any) -> None:
    np.savez(Path(folder, f"{kind}.npz"), **results)

    def task() -> None:
        for _ in range(CALLS):
            once()

    _worker.serve(answers, task)


def bare(folder: str) -> None:
    """Serve a session of the exported model."""
    answers = _worker.own_stdout()
    import onnxruntime as ort

    from caffe2_frontend import to_onnx

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = to_onnx(load(CHAR_RNN)).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = _feed(folder)
    names = [value.name for value in session.get_outputs()]
    results = dict(zip(names, session.run(None, feed), strict=True))
    _serve(folder, "bare", lambda: session.run(None, feed), results, answers)


def predictor(folder: str) -> None:
    """Serve the same through a Predictor."""
    answers = _worker.own_stdout()
    from caffe2_backend.runtime import Predictor, SessionOptions

    runner = Predictor(load(CHAR_RNN), options=SessionOptions(threads=1))
    feed = _feed(folder)
    _serve(folder, "predictor", lambda: runner.run(feed), runner.run(feed), answers)


def bare_loop(folder: str) -> None:
    """Serve a session whose last states are the next step's initial ones."""
    answers = _worker.own_stdout()
    import onnxruntime as ort

    from caffe2_frontend import to_onnx

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        to_onnx(load(CHAR_RNN)).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = _feed(folder)
    names = [value.name for value in session.get_outputs()]
    hidden, cell = (names.index(output) for output in STATES.values())

    def once() -> Any:
        results = session.run(None, feed)
        feed["hidden_init"], feed["cell_init"] = results[hidden], results[cell]
        return results

    _serve(folder, "bare_loop", once, dict(zip(names, once(), strict=True)), answers)


def run_many(folder: str) -> None:
    """Serve the same steps through a Predictor's run_many."""
    answers = _worker.own_stdout()
    from caffe2_backend.runtime import Predictor, SessionOptions

    feed = _feed(folder)
    step = {name: array for name, array in feed.items() if name not in STATES}
    steps = chain([feed], repeat(step))
    stream = Predictor(load(CHAR_RNN), options=SessionOptions(threads=1)).run_many(steps, STATES)
    _serve(folder, "run_many", lambda: next(stream), next(stream), answers)


def workspace(folder: str) -> None:
    """Serve the same through a Workspace: RunNet alone, as in real Caffe2."""
    answers = _worker.own_stdout()
    from caffe2_backend.runtime import SessionOptions, Workspace

    model = load(CHAR_RNN)
    space = Workspace(options=SessionOptions(threads=1))
    space.run_net_once(model.init)
    for name, array in _feed(folder).items():
        space.feed(name, array)
    net = space.create_net(model.predict_net)
    space.run_net(net)
    results = {name: space.fetch(name) for name in model.outputs}
    _serve(folder, "workspace", lambda: space.run_net(net), results, answers)


def cut(folder: str) -> None:
    """Serve products with host operators between them."""
    _serve_products(folder, "cut", [op for i in range(CUTS) for op in (_product(i), _count())])


def whole(folder: str) -> None:
    """Serve the same operators, with those on the host at the end."""
    _serve_products(folder, "whole", [*map(_product, range(CUTS)), *(_count() for _ in range(CUTS))])


def _product(index: int) -> OperatorDef:
    return OperatorDef(type="MatMul", input=[f"x{index}", "w"], output=[f"x{index + 1}"])


def _count() -> OperatorDef:
    return OperatorDef(type="CountUp", input=["counter"], output=["count"])


def _serve_products(folder: str, kind: str, ops: list[OperatorDef]) -> None:
    answers = _worker.own_stdout()
    from caffe2_backend.runtime import SessionOptions, Workspace

    space = Workspace(options=SessionOptions(threads=1))
    space.feed("x0", np.ones((1, 16), np.float32))
    space.feed("w", np.eye(16, dtype=np.float32))
    space.run_operator_once(OperatorDef(type="CreateCounter", output=["counter"]))
    net = space.create_net(NetDef(name="net", op=ops, external_output=[f"x{CUTS}"]))
    space.run_net(net)
    _serve(folder, kind, lambda: space.run_net(net), {"y": space.fetch(f"x{CUTS}")}, answers)


def memory(_folder: str) -> None:
    """Print the resident bytes after a thousand runs with changing T, and after many more."""
    answers = _worker.own_stdout()
    from caffe2_backend.runtime import Predictor, SessionOptions

    runner = Predictor(load(CHAR_RNN), options=SessionOptions(threads=1))
    random = np.random.default_rng(0)
    data = random.random((LONGEST, 1, 94), np.float32)
    state = np.zeros((1, 1, 192), np.float32)

    def runs(count: int) -> int:
        for steps in map(int, random.integers(1, LONGEST + 1, count)):
            lengths = np.array([steps], np.int32)
            feed = {"input_blob": data[:steps], "seq_lengths": lengths, "hidden_init": state, "cell_init": state}
            runner.run(feed)
        return _worker.resident()

    print(runs(CALLS), runs(RUNS_OF_CHANGING_T), file=answers, flush=True)


WORKERS: Final[dict[str, Callable[[str], None]]] = {
    "--bare": bare,
    "--predictor": predictor,
    "--workspace": workspace,
    "--bare_loop": bare_loop,
    "--run_many": run_many,
    "--cut": cut,
    "--whole": whole,
    "--memory": memory,
}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
