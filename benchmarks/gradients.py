"""Gradients of a long net: this project's ``add_gradient_operators`` against real Caffe2's Python.

A chain of Relu, Tanh, FC and Sum operators, the last of which reads a blob of two operators before, so that gradients
are summed. Prints seconds (the median of some rounds that take turns), operators a second, and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from conformance.oracle import find_oracle
from google.protobuf import text_format
from support.gradients.caffe2_gradients import ask

from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef

ROUNDS = 3
KINDS = ("Relu", "Tanh", "FC", "Sum")


def chain(length: int) -> NetDef:
    """Return a net of ``length`` operators, each reading what the one before has written."""
    net = NetDef(name="chain")
    for index in range(length):
        kind = KINDS[index % len(KINDS)]
        more = {"FC": [f"w{index}", f"b{index}"], "Sum": [f"x{index - 2}"]}.get(kind, [])
        net.op.add(type=kind, input=[f"x{index}", *more], output=[f"x{index + 1}"])
    return net


def ours(net: NetDef, loss: str) -> float:
    """Return the seconds for the gradients of one net."""
    start = time.perf_counter()
    add_gradient_operators(net, [loss])
    return time.perf_counter() - start


def theirs(net: NetDef, loss: str) -> float:
    """Return the same in real Caffe2, reading of the net not counted."""
    (answer,) = ask("nets", [{"net": text_format.MessageToString(net), "ys": {loss: None}}])
    if "error" in answer:
        sys.exit(answer["error"])
    return float(answer["seconds"])


def main(lengths: list[int]) -> None:
    """Measure each length and print a line."""
    has_oracle = find_oracle() is not None
    if not has_oracle:
        print("real Caffe2 is not installed (scripts/oracle installs it): no ratio")
    for length in lengths:
        net = chain(length)
        loss = f"x{length}"
        seconds, others = [], []
        for _ in range(ROUNDS):
            seconds.append(ours(net, loss))
            if has_oracle:
                others.append(theirs(net, loss))
        mine = statistics.median(seconds)
        text = f"{length:7} operators   ours {mine:7.3f} s ({length / mine:8.0f}/s)"
        if others:
            ratio = statistics.median(b / a for a, b in zip(seconds, others, strict=True))
            text += f"   real Caffe2 {statistics.median(others):7.3f} s   ratio {ratio:5.1f}"
        print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", type=int, nargs="*", default=[1000, 10000], help="operators; default 1000 10000")
    main(parser.parse_args().lengths)
