"""Reading an init net: this project against protobuf's own parser and ``np.array``, in time and in peak memory.

Writes an init net of GivenTensorFill operators of a size to a temporary folder, then reads every parameter as an
array and keeps it, in a process of its own for each measurement. Prints medians, ratios, and peaks of resident memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from support.wire_fields import encode_fixed

from caffe2_bridge import load_init_net
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.wire import write as wire_write

TENSOR_ELEMENTS = 4_000_000  # 20 MB on the wire, as a large convolution or embedding
REPEATS = 5
MEGA = 1_000_000


def write_net(path: Path, megabytes: int) -> None:
    """Write an init net of about that size, piece by piece."""
    generator = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(NetDef(name="init").SerializeToString())
        left = megabytes * MEGA // 5
        index = 0
        while left > 0:
            size = min(left, TENSOR_ELEMENTS)
            values = generator.standard_normal(size, dtype=np.float32)
            head = OperatorDef(
                type="GivenTensorFill", output=[f"w{index}"], arg=[Argument(name="shape", ints=[size])]
            ).SerializeToString()
            argument = wire_write.encode_len(5, Argument(name="values").SerializeToString(), encode_fixed(5, values))
            file.write(wire_write.encode_len(2, head, argument))
            left -= size
            index += 1
        file.flush()
        os.fsync(file.fileno())  # so that no reader pays for the writing


def read_ours(path: Path) -> dict[str, np.ndarray]:
    """Return every parameter, decoded from the mapped file."""
    return {name: parameter.load() for name, parameter in load_init_net(path).parameters.items()}


def read_protobuf(path: Path) -> dict[str, np.ndarray]:
    """Return every parameter, out of a parsed NetDef."""
    net = NetDef.FromString(path.read_bytes())
    out = {}
    for op in net.op:
        args = {arg.name: arg for arg in op.arg}
        out[op.output[0]] = np.array(args["values"].floats, np.float32).reshape(list(args["shape"].ints))
    return out


READERS = {"ours": read_ours, "protobuf": read_protobuf}


def peak_memory() -> int:
    """Return the most memory that was resident in this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss starts at the parent's size there
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure(how: str, path: str) -> None:
    """Print one reading: seconds, peak memory above that of the imports, and a checksum, as JSON."""
    before = peak_memory()
    start = time.perf_counter()
    arrays = READERS[how](Path(path))
    seconds = time.perf_counter() - start
    peak = peak_memory()
    checksum = float(sum(a[:1000].astype(np.float64).sum() + a[-1] for a in arrays.values()))
    print(json.dumps({"seconds": seconds, "peak": peak, "base": before, "checksum": checksum}))


def main(sizes: list[int]) -> None:
    """Measure each size and print a table."""
    for megabytes in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "init_net.pb"
            write_net(path, megabytes)
            size = path.stat().st_size
            print(f"init net of {size / MEGA:.0f} MB")
            medians = {}
            checksums = set()
            runs: dict[str, list[dict[str, float]]] = {how: [] for how in READERS}
            for _ in range(REPEATS):  # taking turns, so that a busy moment of the machine hits both
                for how, done in runs.items():
                    command = [sys.executable, __file__, "--measure", how, str(path)]
                    done.append(json.loads(subprocess.check_output(command)))
            for how, done in runs.items():
                seconds = [run["seconds"] for run in done]
                medians[how] = statistics.median(seconds)
                peak, base = (statistics.median(run[what] for run in done) for what in ("peak", "base"))
                checksums |= {run["checksum"] for run in done}
                print(
                    f"  {how:9} {medians[how]:7.3f} s ({min(seconds):.3f}..{max(seconds):.3f})"
                    f"   peak {peak / MEGA:5.0f} MB = {peak / size:.2f} x the file, {base / MEGA:.0f} MB before reading"
                )
            print(f"  ratio     {medians['protobuf'] / medians['ours']:8.1f} x")
            if len(checksums) != 1:
                sys.exit("the readers do not agree")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("sizes", type=int, nargs="*", default=[100], help="MB of weights; default 100")
        main(parser.parse_args().sizes)
