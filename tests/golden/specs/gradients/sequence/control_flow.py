"""Gradients through branches and loops, as real Caffe2 computes them."""

from typing import Any

import numpy as np
from conformance.recording import Spec
from support.gradients.control_nets import LOOPS, W, X, net_of
from support.gradients.random_control import draw_program

from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def net(whole: NetDef, inputs: dict[str, Any], *, outputs: list[str]) -> Spec:
    """Return a case of a net that declares these inputs and outputs."""
    declared = NetDef(op=whole.op, external_input=list(inputs), external_output=list(dict.fromkeys(outputs)))
    return Spec("net", declared, inputs, {})


def loop(name: str, count: int) -> Spec:
    carried = LOOPS[name].carried.split()
    found = add_gradient_operators(LOOPS[name].net(), ["l"])
    inputs: dict[str, Any] = {"n": np.array([count], np.int32), "one": np.array([1], np.int32)}
    inputs |= {"rows": np.array([1, 1], np.int32), "w": W}
    inputs |= {state: X + index / 4 for index, state in enumerate(carried)}
    read = {blob for op in found.net.op for blob in op.input}
    outputs = [str(found.gradients[blob]) for blob in ("w", *carried) if blob in found.gradients]
    return net(found.net, {blob: value for blob, value in inputs.items() if blob in read}, outputs=outputs)


def program(seed: int) -> Spec:
    drawn = draw_program(seed)
    found = add_gradient_operators(drawn.net, ["l"])
    read = {blob for op in found.net.op for blob in op.input}
    outputs = dict.fromkeys(str(gradient) for blob, gradient in found.gradients.items() if blob in drawn.inputs)
    inputs = {blob: value for blob, value in drawn.inputs.items() if blob in read}
    return net(found.net, inputs, outputs=list(outputs))


CASES = [
    net(net_of("empty", [("CreateScope", "", "stack"), ("HasScope", "stack", "some")]), {}, outputs=["some"]),
    *(loop(name, count) for name in LOOPS for count in (0, 3)),
    *(program(seed) for seed in range(6)),
]
