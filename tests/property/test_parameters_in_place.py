"""Random training nets compute the same, bit for bit, whether states are updated in place, kept in buffers, or neither.

Nets are stacks of lookups in tables and layers with shared weights, their gradients, and an optimizer for every
parameter; readers of a parameter, before and after its update, stand anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from conformance.recording import operator
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caffe2_backend import Workspace
from caffe2_backend.runtime.program import program
from caffe2_backend.runtime.program.buffers import pool
from caffe2_backend.runtime.program.states import resident
from caffe2_bridge.gradients import SparseGradient, add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

WIDTH = 4
ROWS = 12
BATCH = 5
STEPS = 4
DENSE = ("WeightedSum", "Adam", "Adagrad", "MomentumSGDUpdate")
SPARSE = ("ScatterWeightedSum", "SparseAdagrad", "SparseAdam", "SparseMomentumSGDUpdate")


@dataclass
class TrainingNet:
    """A net, and the sizes of its states."""

    ops: list[OperatorDef] = field(default_factory=list)
    states: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add(self, op_type: str, inputs: list[str], outputs: list[str], **args: float) -> None:
        self.ops.append(operator(op_type, inputs, outputs, **args))

    def state(self, name: str, shape: tuple[int, ...]) -> str:
        self.states[name] = shape
        return name


def forward(draw: st.DrawFn, net: TrainingNet) -> dict[str, str]:
    """Add the layers up to the loss; return the parameters and the kinds of their optimizers."""
    optimizers: dict[str, str] = {}
    sums = []
    for i in range(draw(st.integers(1, 2))):
        table = net.state(f"table{draw(st.integers(0, i))}", (ROWS, WIDTH))
        optimizers.setdefault(table, draw(st.sampled_from(SPARSE)))
        net.add("Gather", [table, f"ids{draw(st.integers(0, 1))}"], [f"rows{i}"])
        sums.append(f"rows{i}")
    x = sums[0]
    if len(sums) > 1:
        net.add("Sum", sums, ["x"])
        x = "x"
    for i in range(draw(st.integers(1, 3))):
        shared = draw(st.integers(0, i))
        weight, bias = net.state(f"w{shared}", (WIDTH, WIDTH)), net.state(f"b{shared}", (WIDTH,))
        kind = draw(st.sampled_from(DENSE))
        optimizers.setdefault(weight, kind)
        optimizers.setdefault(bias, kind)
        net.add("FC", [x, weight, bias], [f"fc{i}"])
        x = f"y{i}"
        net.add(draw(st.sampled_from(["Relu", "Sigmoid", "Tanh"])), [f"fc{i}"], [x])
    net.add("SoftmaxWithLoss", [x, "label"], ["softmax", "loss"])
    return optimizers


def update(net: TrainingNet, name: str, kind: str, gradient: str | SparseGradient) -> None:
    """Add the optimizer of a parameter."""
    shape = net.states[name]
    if isinstance(gradient, SparseGradient):
        rows, ids = gradient.values, gradient.indices
        moment = net.state(f"{name}_m", shape)
        if kind == "ScatterWeightedSum":
            net.add(kind, [name, "one", ids, rows, "lr"], [name])
        elif kind == "SparseAdagrad":
            net.add(kind, [name, moment, ids, rows, "lr"], [name, moment])
        elif kind == "SparseAdam":
            second = net.state(f"{name}_v", shape)
            net.add(kind, [name, moment, second, ids, rows, "lr", "iter"], [name, moment, second])
        else:
            net.add(kind, [rows, moment, "lr", name, ids], [rows, moment, name], momentum=0.9)
        return
    moment = net.state(f"{name}_m", shape)
    if kind == "WeightedSum":
        net.add(kind, [name, "one", gradient, "lr"], [name])
    elif kind == "Adam":
        second = net.state(f"{name}_v", shape)
        net.add(kind, [name, moment, second, gradient, "lr", "iter"], [name, moment, second])
    elif kind == "Adagrad":
        net.add(kind, [name, moment, gradient, "lr"], [name, moment])
    else:
        net.add(kind, [gradient, moment, "lr", name], [gradient, moment, name], momentum=0.9)


@st.composite
def training_nets(draw: st.DrawFn) -> TrainingNet:
    net = TrainingNet()
    optimizers = forward(draw, net)
    made = add_gradient_operators(NetDef(name="step", op=net.ops), ["loss"])
    net.ops = list(made.net.op)
    net.add("Iter", ["iter"], ["iter"])
    for i, name in enumerate(draw(st.permutations(sorted(optimizers)))):
        gradient = made.gradients.get(name)
        if gradient is None:
            continue
        reader = draw(st.sampled_from(["", "before", "after", "both", "copy"]))
        if reader in ("before", "both"):
            net.add("Negative", [name], [f"before{i}"])
        if reader == "copy":
            net.add("Copy", [name], [f"old{i}"])
        update(net, name, optimizers[name], gradient)
        if reader in ("after", "both"):
            net.add("Negative", [name], [f"after{i}"])
        if reader == "copy":
            net.add("Sub", [name, f"old{i}"], [f"change{i}"])
        if draw(st.booleans()):
            net.add("Scale", [name], [name], scale=0.99)
    return net


def train(net: TrainingNet, seed: int) -> list[dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    """Run steps on ids with repetitions: every blob after each step."""
    random = np.random.default_rng(seed)
    workspace = Workspace()
    workspace.run_net_once(NetDef(name="one", op=[operator("ConstantFill", [], ["one"], shape=[1], value=1.0)]))
    for name, shape in net.states.items():
        values = random.standard_normal(shape).astype(np.float32)
        workspace.feed(name, np.abs(values) if name.endswith(("_m", "_v")) else values)
    workspace.feed("lr", np.array([-0.1], np.float32))
    workspace.feed("iter", np.array([0], np.int64))
    written = dict.fromkeys(name for op in net.ops for name in op.output)
    workspace.create_net(NetDef(name="step", op=net.ops, external_output=written))
    results = []
    for _ in range(STEPS):
        for ids in ("ids0", "ids1"):
            workspace.feed(ids, random.integers(0, ROWS, BATCH))
        workspace.feed("label", random.integers(0, WIDTH, BATCH).astype(np.int32))
        workspace.run_net("step")
        results.append({name: np.asarray(workspace.fetch(name)) for name in workspace.blobs()})
    return results


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(training_nets(), st.integers(0, 2**32 - 1))
def test_steps_are_the_same_in_place(net: TrainingNet, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "large_states", lambda *_: [])
        patch.setattr(pool, "SMALL", -1)
        expected = train(net, seed)
        patch.undo()
        patch.setattr(resident, "LARGE", 0)
        in_place = train(net, seed)
        patch.undo()
        patch.setattr(program, "large_states", lambda *_: [])
        in_buffers = train(net, seed)
    for found in (in_place, in_buffers):
        for step, (one, other) in enumerate(zip(expected, found, strict=True)):
            assert one.keys() == other.keys()
            for name, value in one.items():
                np.testing.assert_array_equal(value, other[name], err_msg=f"{name} after step {step}")
