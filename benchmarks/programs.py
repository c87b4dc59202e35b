"""Programs on Caffe2's own Python files: iterations a second of examples/char_rnn.py, here and in real Caffe2.

The program is not changed, and trains with its own defaults (25 characters, a batch of one, 100 hidden units); each
contender runs on one core. Then how long the first run of a net takes, in a process that has run nets before: one of a
new structure, one that differs in names only, and single operators (RunOperatorOnce).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import _worker
import numpy as np
from _measure import Spread, caffe2_files, ours, ratio, take_turns
from conformance.oracle import find_oracle

HERE: Final = Path(__file__).resolve().parent
ITERATIONS: Final = 100
TEXT: Final = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs.\n" * 40
OPERATORS: Final = 50


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of %(default)s turns each")
    options = parser.parse_args()
    python = find_oracle()
    if python is None:
        sys.exit("real Caffe2 is not installed; scripts/oracle installs it")
    with tempfile.TemporaryDirectory() as name:
        text = Path(name, "text")
        text.write_text(TEXT)
        worker, count = HERE / "_char_rnn.py", str(ITERATIONS)
        commands: dict[str, list[str | Path]] = {
            "ours": ours("_char_rnn.py", caffe2_files(python), text, count),
            "caffe2": [python, worker, "", text, count],
        }
        seconds = take_turns(commands, options.repeats, threads=1)
    for contender, figures in seconds.items():
        spread = Spread.of([ITERATIONS / figure for figure in figures])
        print(f"{contender:<7} {spread.median:7.1f} iterations of char_rnn.py a second", end=" ")
        print(f"({spread.low:.1f} to {spread.high:.1f})")
    print(f"ours is {ratio(seconds['caffe2'], seconds['ours']):.2f} x as fast as real Caffe2")
    kinds = ("new", "renamed", "operator")
    first = take_turns({kind: ours("programs.py", f"--{kind}") for kind in kinds}, options.repeats, threads=1)
    for kind, figures in first.items():
        spread = Spread.of([figure * 1e3 for figure in figures])
        what = "a new operator" if kind == "operator" else f"a net of {OPERATORS} operators, {kind}"
        print(f"first run of {what}: {spread.median:.2f} ms ({spread.low:.2f} to {spread.high:.2f})")
    return 0


def _serve_first_runs(kind: str) -> None:
    answers = _worker.own_stdout()
    from caffe2_backend import Workspace
    from caffe2_backend.runtime.program.conversion_cache import CONVERSIONS
    from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

    turns = 0

    def layer(prefix: str, i: int) -> list[OperatorDef]:
        names = [prefix + name for name in (f"x{i}", "w", "b", f"h{i}", f"x{i + 1}")]
        dense = OperatorDef(type="FC", input=names[:3], output=[names[3]])
        return [dense, OperatorDef(type="Relu", input=[names[3]], output=[names[4]])]

    def first_run() -> float:
        nonlocal turns
        turns += 1
        prefix = f"net{turns}/"
        workspace = Workspace()
        for name, shape in (("x0", (4, 8)), ("w", (8, 8)), ("b", (8,))):
            workspace.feed(prefix + name, np.ones(shape, np.float32))
        count = 1 if kind == "operator" else OPERATORS // 2
        net = NetDef(name=prefix, op=[op for i in range(count) for op in layer(prefix, i)])
        if kind == "new":
            CONVERSIONS.clear()
        start = time.perf_counter()
        if kind == "operator":
            workspace.run_operator_once(net.op[0])
        else:
            workspace.run_net_once(net)
        return time.perf_counter() - start

    first_run()
    _worker.reply(answers, {"ready": True})
    for _ in sys.stdin:
        _worker.reply(answers, {"seconds": first_run(), "peak": 0})


WORKERS: Final = ("--new", "--renamed", "--operator")

if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    if arguments and arguments[0] in WORKERS:
        _serve_first_runs(arguments[0].removeprefix("--"))
    else:
        sys.exit(main())
