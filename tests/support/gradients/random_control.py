"""Random programs of branches and loops, nested, with bodies as people write them: they overwrite what they read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from support.gradients.control_nets import add

from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto

VARIABLES = ("a", "b", "c")
PARAMETERS = ("w", "u")
UNARY: dict[str, Callable[[Any], Any]] = {
    "Tanh": lambda x: x.tanh(),
    "Sigmoid": lambda x: x.sigmoid(),
    "Sin": lambda x: x.sin(),
    "Copy": lambda x: x,
}


@dataclass(frozen=True)
class Assign:
    """``target = kind(operands)``; an operand may be the target."""

    target: str
    kind: str
    operands: tuple[str, ...]


@dataclass(frozen=True)
class Branch:
    """A branch on a condition, whose other side may be missing."""

    condition: str
    then: tuple[Any, ...]
    other: tuple[Any, ...] | None


@dataclass(frozen=True)
class Repeat:
    """A loop of as many iterations as an input says."""

    count: str
    body: tuple[Any, ...]


Statement = Assign | Branch | Repeat


@dataclass(frozen=True)
class Program:
    """Statements, the net of them up to its loss ``l``, and values of the net's inputs."""

    statements: tuple[Statement, ...]
    net: NetDef
    inputs: dict[str, Any]

    def loss(self, values: dict[str, Any]) -> Any:
        """Return the loss, computed on PyTorch's tensors."""
        state = {name: values[f"{name}_in"] for name in VARIABLES}
        _run(self.statements, state | {name: values[name] for name in PARAMETERS}, values, state)
        return sum(state[name] for name in VARIABLES).tanh().sum()


def _run(statements: Sequence[Statement], known: dict[str, Any], inputs: dict[str, Any], state: dict[str, Any]) -> None:
    for statement in statements:
        if isinstance(statement, Assign):
            operands = [state[name] if name in state else known[name] for name in statement.operands]
            if statement.kind in UNARY:
                state[statement.target] = UNARY[statement.kind](operands[0])
            else:
                state[statement.target] = operands[0] * operands[1] if statement.kind == "Mul" else sum(operands)
        elif isinstance(statement, Branch):
            taken = statement.then if bool(inputs[statement.condition][0]) else statement.other
            _run(taken or (), known, inputs, state)
        else:
            for _ in range(int(inputs[statement.count][0])):
                _run(statement.body, known, inputs, state)


class _Writer:
    """Statements as operators."""

    def __init__(self) -> None:
        self.numbers = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def write(self, net: NetDef, statements: Sequence[Statement], names: dict[str, str], *, top: bool) -> None:
        """Add the operators; at the top, where no gradient may overwrite, every value has a name of its own."""
        for statement in statements:
            if isinstance(statement, Assign):
                operands = [names.get(name, name) for name in statement.operands]
                if top:
                    names[statement.target] = f"{statement.target}_{self.number()}"
                add(net, statement.kind, operands, [names[statement.target]])
                continue
            if top:
                for name in VARIABLES:
                    own = f"{name}_{self.number()}"
                    add(net, "Copy", [names[name]], [own])
                    names[name] = own
            if isinstance(statement, Branch):
                self.branch(net, statement, names)
            else:
                self.loop(net, statement, names)

    def branch(self, net: NetDef, statement: Branch, names: dict[str, str]) -> None:
        bodies = {"then_net": statement.then, "else_net": statement.other}
        nets = {}
        for argument, body in bodies.items():
            if body is not None:
                nets[argument] = NetDef(name=f"{argument}_{self.number()}")
                self.write(nets[argument], body, names, top=False)
        written = list(dict.fromkeys(name for one in nets.values() for name in _written(one, names)))
        op = net.op.add(type="If", input=[statement.condition, *names.values(), *PARAMETERS], output=written)
        for argument, one in nets.items():
            op.arg.add(name=argument).n.CopyFrom(one)

    def loop(self, net: NetDef, statement: Repeat, names: dict[str, str]) -> None:
        number = self.number()
        index, condition = f"i{number}", f"more{number}"
        fill = add(net, "ConstantFill", [], [index], value=0, dtype=TensorProto.INT32)
        fill.arg.add(name="shape", ints=[1])
        add(net, "LT", [index, statement.count], [condition])
        body = NetDef(name=f"body_{number}")
        self.write(body, statement.body, names, top=False)
        add(body, "Add", [index, "one"], [index])
        test = NetDef(name=f"test_{number}")
        add(test, "LT", [index, statement.count], [condition])
        written = [*_written(body, names), index, condition]
        op = net.op.add(type="While", input=[condition, *names.values(), *PARAMETERS, index], output=written)
        op.arg.add(name="loop_net").n.CopyFrom(body)
        op.arg.add(name="cond_net").n.CopyFrom(test)


def _written(net: NetDef, names: dict[str, str]) -> list[str]:
    return [name for name in dict.fromkeys(name for op in net.op for name in op.output) if name in names.values()]


def _statement(draw: random.Random, depth: int) -> Statement:
    kind = draw.random()
    if depth and kind < 0.3:
        other = _statements(draw, depth - 1) if draw.random() < 0.6 else None
        return Branch(draw.choice(["yes", "no"]), _statements(draw, depth - 1), other)
    if depth and kind < 0.6:
        return Repeat(draw.choice(["n0", "n1", "n2"]), _statements(draw, depth - 1))
    operation = draw.choice([*UNARY, "Mul", "Sum"])
    target = draw.choice(VARIABLES)
    if operation in UNARY:
        others = [name for name in VARIABLES if name != target or operation != "Copy"]
        operand = draw.choice(others)
        if operation == "Sin" and operand == target:
            operation = "Tanh"  # Sin does not compute in place
        return Assign(target, operation, (operand,))
    first, second = draw.sample([*VARIABLES, *PARAMETERS], 2)
    if operation == "Sum" and second == target:
        first, second = second, first  # Sum computes in place of its first operand alone
    return Assign(target, operation, (first, second))


def _statements(draw: random.Random, depth: int) -> tuple[Statement, ...]:
    return tuple(_statement(draw, depth) for _ in range(draw.randint(1, 3)))


def draw_program(seed: int) -> Program:
    """Return a random program, of up to three levels."""
    draw = random.Random(seed)  # noqa: S311 - drawn from a seed
    statements = _statements(draw, 3)
    while not any(isinstance(statement, Branch | Repeat) for statement in statements):
        statements = _statements(draw, 3)
    net = NetDef(name="net")
    names = {name: f"{name}_start" for name in VARIABLES}
    for name in VARIABLES:
        add(net, "Copy", [f"{name}_in"], [names[name]])
    _Writer().write(net, statements, names, top=True)
    add(net, "Sum", list(names.values()), ["total"])
    add(net, "Tanh", ["total"], ["squashed"])
    add(net, "SumElements", ["squashed"], ["l"])
    values = np.random.default_rng(seed)
    inputs: dict[str, Any] = {
        name: (values.standard_normal((2, 2)) / 2).astype(np.float32)
        for name in (*(f"{variable}_in" for variable in VARIABLES), *PARAMETERS)
    }
    inputs |= {"yes": np.array([True]), "no": np.array([False]), "one": np.array([1], np.int32)}
    inputs |= {f"n{count}": np.array([count], np.int32) for count in range(3)}
    return Program(statements, net, inputs)
