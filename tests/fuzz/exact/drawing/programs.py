"""Random nets with bodies: steps of recurrent nets, branches, loops, and their gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from conformance.recording import operator
from support.cells import FEATURES, WIDTH, Recurrent, fc, feed, masked, weights
from support.gradients.random_control import draw_program

from caffe2_bridge.gradients import GradientError, add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from fuzz.exact.drawing.drawn import Drawn

_UNARY = ("Tanh", "Sigmoid", "Relu", "Copy", "Negative", "Softsign")
_BINARY = ("Add", "Mul", "Sum", "Sub", "Max")
PROGRAMS = ("recurrent", "control", "chain")


def draw_net(kind: str, random: np.random.Generator) -> Drawn:
    """A random net of one of :data:`PROGRAMS`, in half of all cases with its gradients."""
    if kind == "recurrent":
        net, inputs = _recurrent(random)
    elif kind == "control":
        program = draw_program(int(random.integers(0, 2**31)))
        net, inputs = program.net, dict(program.inputs)
    else:
        net, inputs = _chain(random)
    drawn = Drawn(f"program/{kind}", net, inputs).declared()
    return with_gradients(drawn, random) if random.random() < 0.5 else drawn


def _operations(
    values: list[str], count: int, random: np.random.Generator, prefix: str, matrices: tuple[str, ...] = ()
) -> list[OperatorDef]:
    """Random operators on blobs of one shape, each of which may read what the others made."""
    ops = []
    for number in range(count):
        result = f"{prefix}{number}"
        roll = random.random()
        if matrices and roll < 0.2:
            ops.append(fc(str(random.choice(values)), str(random.choice(matrices)), result))
        elif roll < 0.55:
            ops.append(operator(str(random.choice(_UNARY)), [str(random.choice(values))], [result]))
        else:
            pair = [str(name) for name in random.choice(values, 2)]
            ops.append(operator(str(random.choice(_BINARY)), pair, [result]))
        values.append(result)
    return ops


def _chain(random: np.random.Generator) -> tuple[NetDef, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    shape = tuple(int(n) for n in random.integers(0, 4, int(random.integers(0, 5))))
    inputs = {name: random.standard_normal(shape).astype(np.float32) for name in ("a", "b")}
    values = list(inputs)
    ops = _operations(values, int(random.integers(2, 9)), random, "v")
    return NetDef(name="chain", op=ops, external_output=values[-2:]), inputs


def _recurrent(
    random: np.random.Generator,
) -> tuple[NetDef, dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    states = [f"h{index}" for index in range(int(random.integers(1, 4)))]
    arrays = weights({"w_in": (WIDTH, FEATURES), "w_in_b": (WIDTH,), "w_a": (WIDTH, WIDTH), "w_a_b": (WIDTH,)})
    steps = [fc("x_t", "w_in", "row")]
    values = ["row", *states]
    steps += _operations(values, int(random.integers(len(states), 8)), random, "s", ("w_a",))
    has_lengths = bool(random.random() < 0.4)
    after = {
        state: str(name)
        for state, name in zip(states, random.choice(values[1 + len(states) :], len(states)), strict=True)
    }
    if len(set(after.values())) < len(states) or has_lengths:
        for state in states:
            result = f"{state}_next"
            if has_lengths:
                steps += masked(after[state], state, result, drop=bool(random.random() < 0.5))
            else:
                steps.append(operator("Copy", [after[state]], [result]))
            after[state] = result
    used = {name for op in steps for name in op.input}
    cell = Recurrent(steps, after, {name: array for name, array in arrays.items() if name in used}, lengths=has_lengths)
    length, batch = int(random.integers(1, 6)), int(random.integers(1, 4))
    return cell.net(), {**feed(cell, length, batch), **cell.weights}


def with_gradients(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """The net with the gradients of its outputs, or unchanged if it has none."""
    drawn = drawn.declared()
    floats = [name for name in drawn.outputs if name != "workspaces"]
    if not floats or drawn.quantized:
        return drawn
    losses = [str(name) for name in random.choice(floats, int(random.integers(1, len(floats) + 1)), replace=False)]
    try:
        found = add_gradient_operators(drawn.net, losses)
    except GradientError:
        return drawn
    wanted = [str(found.gradients[name]) for name in drawn.inputs if isinstance(found.gradients.get(name), str)]
    net = NetDef()
    net.CopyFrom(found.net)
    del net.external_output[:]
    net.external_output.extend([*drawn.outputs, *wanted])
    return replace(drawn, label=f"{drawn.label} with gradients", net=net, trail=(*drawn.trail, "gradients are added"))
