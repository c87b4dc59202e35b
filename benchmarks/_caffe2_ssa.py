"""Real Caffe2's get_ssa as a contender, in its own python.

usage: <Caffe2's python> _caffe2_ssa.py NET REPEATS    (the seconds of each run are JSON on the last line of stdout)

This file runs under the oldest Python that Caffe2 was built for (3.6) and imports nothing of this project's packages.
"""
# ruff: noqa: PTH123 - as plain as Python 3.6 needs it

import gc
import json
import sys
import time

from caffe2.proto import caffe2_pb2  # type: ignore[import-not-found]  # Caffe2's own
from caffe2.python import core  # type: ignore[import-not-found]  # Caffe2's own

if __name__ == "__main__":
    net = caffe2_pb2.NetDef()
    with open(sys.argv[1], "rb") as file:
        net.ParseFromString(file.read())
    seconds = []
    for _ in range(int(sys.argv[2])):
        gc.collect()
        start = time.process_time()
        core.get_ssa(net)
        seconds.append(time.process_time() - start)
    print(json.dumps({"seconds": seconds}))
