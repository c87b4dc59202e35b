"""Random cells: sums first and last, residual, in place, with several states and parameters."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from caffe2_bridge.builder import Net, recurrent_net
from caffe2_bridge.gradients import add_gradient_operators

T, N, D = 4, 2, 3


@dataclass(frozen=True)
class RandomCell:
    """A recurrent net with a loss and its gradients.

    Attributes:
        net: the operators, up to the gradients.
        inputs: the values of its inputs.
        gradients: the gradient of each input that has one.
    """

    net: Net
    inputs: Mapping[str, Any]
    gradients: Mapping[str, str]


class _Draw:
    """The operators of one random cell. Blobs are [1, N, D], or parameters of a shape that broadcasts or agrees."""

    def __init__(self, step: Net, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - drawn from a seed
        self.step = step
        self.parameters: dict[str, tuple[int, ...]] = {}
        self.number = 0
        self.unread: set[str] = set()  # results whose values no gradient needs, and that no operator has read

    def fresh(self) -> str:
        self.number += 1
        return f"v{self.number}"

    def parameter(self, *shape: int) -> str:
        same = [name for name, held in self.parameters.items() if held == shape]
        if same and self.random.random() < 0.4:
            return self.random.choice(same)
        name = f"p{len(self.parameters)}"
        self.parameters[name] = shape
        self.step.add_external_input(name)
        return name

    def operator(self, blobs: list[str], output: str) -> str:
        """Return one operator on some of the blobs, which may write over its operand where nothing else needs it."""
        kind = self.random.choice(["Sum", "Sum", "Add", "Mul", "Tanh", "Sigmoid", "FC", "Copy"])
        x = self.random.choice(blobs)
        if kind in ("Tanh", "Sigmoid") and x in self.unread and self.random.random() < 0.7:
            output = x
        read = [x]
        more: dict[str, Any] = {}
        if kind == "Sum":
            read += self.random.choices(blobs, k=self.random.randint(1, 2))
            if self.random.random() < 0.3:
                read.append(self.parameter(1, N, D))
            read = list(dict.fromkeys(read))
        elif kind in ("Add", "Mul"):
            shared = self.random.random() < 0.4
            read.append(self.parameter(D) if shared else self.random.choice(blobs))
            more = {"broadcast": 1} if shared else {}
        elif kind == "FC":
            read += [self.parameter(D, D), self.parameter(D)]
            more = {"axis": 2}
        self.step.op(kind, read, [output], **more)
        self.unread -= {*read, output}
        if kind in ("Sum", "Add", "FC"):
            self.unread.add(output)
        return output


def draw(seed: int) -> RandomCell:
    """Return a random cell. Every state and the row of the sequence contribute to the first output."""
    net = Net("net")
    step = net.child("step")
    drawn = _Draw(step, seed)
    states = [f"s{index}_prev" for index in range(drawn.random.randint(1, 3))]
    step.add_external_input("x_t", "timestep", *states)
    rows = ["x_t", *states]
    blobs = list(rows)
    for _ in range(drawn.random.randint(0, 5)):
        made = drawn.operator(blobs, drawn.fresh())
        blobs = list(dict.fromkeys([*blobs, made]))
    outputs: list[str] = []
    for index, state in enumerate(states):
        output = f"s{index}"
        if index == 0:
            step.op("Sum", list(dict.fromkeys([*rows, *drawn.random.choices(blobs, k=2)])), [output])
        elif drawn.random.random() < 0.5:
            step.op("Sum", list(dict.fromkeys([state, *drawn.random.choices([*blobs, *outputs], k=2)])), [output])
        else:
            step.op("Tanh", [drawn.random.choice([*blobs, *outputs])], [output])
        outputs.append(output)
    step.add_external_output(*outputs)
    starts = [f"start{index}" for index in range(len(states))]
    net.add_external_input("x", *starts, *drawn.parameters)
    with_gradient = sorted(drawn.random.sample(range(2 * len(states)), drawn.random.randint(1, 2 * len(states))))
    if 0 not in with_gradient:
        with_gradient.insert(0, 0)
    results = recurrent_net(
        net, step, [("x_t", "x")], list(zip(states, starts, strict=True)), dict(zip(states, outputs, strict=True)),
        timestep="timestep", outputs_with_grads=with_gradient,
    )  # fmt: skip
    for i in with_gradient:
        net.op("Tanh", [results[i]], [f"t{i}"])
        net.op("SumElements", [f"t{i}"], [f"l{i}"])
    net.op("Sum", [f"l{i}" for i in with_gradient], ["loss"])
    found = add_gradient_operators(net.proto, ["loss"])
    net.proto.CopyFrom(found.net)
    values = np.random.default_rng(seed)
    shapes = {"x": (T, N, D), **dict.fromkeys(starts, (1, N, D)), **drawn.parameters}
    inputs = {name: (values.standard_normal(shape) / 2).astype(np.float32) for name, shape in shapes.items()}
    gradients = {name: str(found.gradients[name]) for name in inputs if name in found.gradients}
    return RandomCell(net, inputs, gradients)
