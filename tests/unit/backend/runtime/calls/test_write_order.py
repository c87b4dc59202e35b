"""Random nets that write in place and over one another leave in a workspace what Caffe2's order of operators says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef, OperatorDef

NAMES = ("a", "b", "c", "d")
FED = ("a", "b")
Array = np.ndarray[Any, Any]


def random_op(random: np.random.Generator, known: list[str]) -> OperatorDef:
    kind = str(random.choice(["Add", "Negative", "Relu", "Scale", "If"]))
    first, second = (str(random.choice(known)) for _ in range(2))
    target = str(random.choice(NAMES))
    if kind == "Add":
        return operator("Add", [first, second], [target])
    if kind == "Scale":
        return operator("Scale", [first], [target], scale=0.5)
    if kind == "If":
        target = str(random.choice(known))  # what a branch leaves alone must have a value
        body = NetDef(name="t", op=[operator("Negative", [first], [target])])
        return operator("If", ["flag"], [target] if random.random() < 0.5 else [], then_net=body)
    return operator(kind, [first], [target])


def random_net(seed: int) -> NetDef:
    random = np.random.default_rng(seed)
    known = list(FED)
    ops = []
    for _ in range(8):
        op = random_op(random, known)
        ops.append(op)
        known += [name for name in op.output if name not in known]
    outputs = [str(random.choice(known))] if random.random() < 0.5 else []
    return NetDef(name="net", op=ops, external_input=[*FED, "flag"], external_output=outputs)


def interpret(net: NetDef, blobs: dict[str, Array]) -> None:
    for op in net.op:
        values = [blobs[name] for name in op.input]
        if op.type == "Add":
            blobs[op.output[0]] = values[0] + values[1]
        elif op.type == "Negative":
            blobs[op.output[0]] = -values[0]
        elif op.type == "Relu":
            blobs[op.output[0]] = np.maximum(values[0], 0)
        elif op.type == "Scale":
            blobs[op.output[0]] = values[0] * np.float32(0.5)
        elif values[0][0]:
            interpret(next(arg.n for arg in op.arg if arg.name == "then_net"), blobs)


def check(workspace: Workspace, net: NetDef, random: np.random.Generator) -> None:
    known: dict[str, Array] = {name: random.integers(-9, 9, 3).astype(np.float32) for name in FED}
    for name, array in known.items():
        workspace.feed(name, array)
    workspace.create_net(net)
    for _ in range(4):
        known["flag"] = np.array([bool(random.integers(2))])
        workspace.feed("flag", known["flag"])
        workspace.run_net("net")
        interpret(net, known)
        for name in NAMES:
            if name in known and random.random() < 0.5:
                np.testing.assert_array_equal(workspace.fetch(name), known[name], err_msg=name)
        if random.random() < 0.3:
            known["b"] = random.integers(-9, 9, 3).astype(np.float32)
            workspace.feed("b", known["b"])
    for name, array in known.items():
        np.testing.assert_array_equal(workspace.fetch(name), array, err_msg=name)


@pytest.mark.parametrize("seed", range(30))
def test_random_nets(seed: int) -> None:
    check(Workspace(options=SessionOptions(threads=1)), random_net(seed), np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(8))
def test_random_nets_operator_by_operator(seed: int) -> None:
    net, random = random_net(seed), np.random.default_rng(seed)
    workspace = Workspace(options=SessionOptions(threads=1))
    known: dict[str, Array] = {name: random.integers(-9, 9, 3).astype(np.float32) for name in FED}
    known["flag"] = np.array([True])
    for name, array in known.items():
        workspace.feed(name, array)
    workspace.create_net(net)
    for bodies in (False, True):
        trace = workspace.run_net("net", every_blob=True, bodies=bodies)
        interpret(net, known)
        for name, array in trace.blobs.items():
            np.testing.assert_array_equal(array, known[name], err_msg=name)
        for name, array in known.items():
            np.testing.assert_array_equal(workspace.fetch(name), array, err_msg=name)


@pytest.mark.parametrize("seed", range(10))
def test_random_nets_on_two_devices(seed: int) -> None:
    """Place every operator on a device of its own choice, with the copies that the toolkit puts in."""
    from caffe2_bridge.devices import insert_copies

    random = np.random.default_rng(seed)
    net = random_net(seed)
    for op in net.op:
        if op.type != "If" and random.random() < 0.5:
            op.device_option.device_type = PROTO_CUDA
    complete, _ = insert_copies(net)
    options = SessionOptions(threads=1, stand_in={"cuda:0": "cpu"})
    workspace = Workspace(options=options)
    known: dict[str, Array] = {name: random.integers(-9, 9, 3).astype(np.float32) for name in FED}
    known["flag"] = np.array([True])
    for name, array in known.items():
        workspace.feed(name, array)
    workspace.run_net_once(complete)
    interpret(net, known)
    for name, array in known.items():
        np.testing.assert_array_equal(workspace.fetch(name), array, err_msg=name)
