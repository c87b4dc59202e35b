"""Starting: what imports and the simplest commands take, against a bare Python and against importing numpy and onnx.

usage: python benchmarks/start.py [--repeats N]

Each contender is a fresh process; they take turns. Printed are seconds of processor time, which other work on the
machine does not change much, and their ratio to both peers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from _measure import HERE, Spread, ratio

CHAR_RNN: Final = HERE.parent / "models" / "char_rnn"
COMMAND_LINE: Final = "import sys; from caffe2_cli.commands import main; main(sys.argv[1:])"
CONTENDERS: Final[dict[str, Sequence[str | Path]]] = {
    "python -c pass": ["pass"],
    "import numpy, onnx": ["import numpy, onnx"],
    "import caffe2_bridge": ["import caffe2_bridge"],
    "import caffe2_backend": ["import caffe2_backend"],
    "caffe2-bridge --help": [COMMAND_LINE, "--help"],
    "caffe2-bridge ops": [COMMAND_LINE, "ops"],
    "caffe2-bridge check": [COMMAND_LINE, "check", CHAR_RNN],
}
BARE, LIBRARIES = "python -c pass", "import numpy, onnx"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9, help="rounds of turns; default %(default)s")
    repeats = parser.parse_args().repeats
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for round_number in range(repeats + 1):  # the first reads files from the disk
        for name, arguments in CONTENDERS.items():
            taken = start([sys.executable, "-c", *arguments])
            if round_number:
                seconds[name].append(taken)
    for name, figures in seconds.items():
        spread = Spread.of(figures)
        print(f"{name:<22} {spread.median:6.3f} s ({spread.low:.3f} to {spread.high:.3f})", end=" ")
        print(f"{ratio(figures, seconds[BARE]):7.1f} x {BARE}", end=" ")
        print(f"{ratio(figures, seconds[LIBRARIES]):6.2f} x {LIBRARIES}")
    return 0


def start(command: Sequence[str | Path]) -> float:
    """Return the seconds of processor time of one process."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdout=printed)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
