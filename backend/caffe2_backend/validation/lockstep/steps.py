"""Operators one by one: what each wrote, in a form that two sides can be compared in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.runtime.results import Blobs, Results
from caffe2_backend.runtime.stepper import trace_net
from caffe2_backend.validation.runtimes import Loaded, Runtime, Value
from caffe2_bridge.control import Scope, control_of
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# Operators whose bodies are gone through.
WALKED = frozenset(["If", "AsyncIf", "While", "Do", "RecurrentNetwork"])


@dataclass(frozen=True)
class Cut:
    """One operator cut out: the model of it alone, and what it was given."""

    model: Any = field(repr=False)
    inputs: Mapping[str, Value] = field(repr=False)
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One value that an operator wrote.

    Attributes:
        place: where the operator stands in its net; for ONNX nodes, in the net that they come from, if it is known.
        op_type: its type; node: its own name.
        iterations: of the loops around it, outermost first.
        name: the blob.
        turn: how many times the blob was written before; blobs that an operator with a body leaves are counted apart.
        walked: whether the operator was gone through, and the value is what its body left.
        value: what it wrote.
        cut: the operator alone; None where it was gone through.
    """

    place: str
    op_type: str
    iterations: tuple[int, ...]
    name: str
    turn: int
    walked: bool
    value: Value = field(repr=False)
    cut: Cut | None = field(default=None, repr=False)
    node: str = ""


Points: TypeAlias = list[Point]


class Teacher(Protocol):
    """What gives an operator's result the value that the other side has."""

    def __call__(self, name: str, turn: int, value: Value) -> Value:
        """The value to go on with."""
        ...


def untaught(name: str, turn: int, value: Value) -> Value:  # noqa: ARG001 - the names are the protocol's
    """Each side goes on with its own values."""
    return value


def net_points(runtime: Runtime, model: Model, inputs: Mapping[str, Any], teach: Teacher = untaught) -> Points:
    """Run a net operator by operator, through bodies and step by step; every value that was written, in order.

    Raises RunError where an operator cannot be run; it says which.
    """
    memory = _Memory(start_blobs(runtime, model) | dict(inputs))
    runner = _Runner(runtime, teach)
    trace = trace_net(model.predict_net, memory, memory.commit, runner.run, bodies=True, capture=True)
    calls = iter(runner.calls)
    points, turns = [], Counter[str]()
    for step in trace:
        walked = step.location.op_type in WALKED
        cut, values = (None, step.blobs) if walked else next(calls)
        for name, value in values.items():
            turn = 0
            if not walked:
                turn = turns[name]
                turns[name] += 1
            place = str(step.location)
            points.append(Point(place, step.location.op_type, step.iterations, name, turn, walked, value, cut))
    return points


def start_blobs(runtime: Runtime, model: Model) -> dict[str, Value]:
    """What the init net makes."""
    blobs: dict[str, Value] = dict(model.params)
    if model.init.rest:
        names = list(dict.fromkeys(name for op in model.init_net.op for name in op.output))
        blobs |= runtime.load(Model(model.init_net)).run({}, names)
    return blobs


class _Memory:
    """The outermost workspace."""

    def __init__(self, blobs: dict[str, Value]) -> None:
        self.blobs = blobs

    def get(self, name: str, /) -> Any:
        return self.blobs.get(name)

    def commit(self, results: Results) -> None:
        self.blobs.update(
            {n: value for n, value in results.values.items() if isinstance(value, np.ndarray | Int8Tensor)}
        )


class _Runner:
    """Runs single operators in a runtime; each is loaded once."""

    def __init__(self, runtime: Runtime, teach: Teacher) -> None:
        self._runtime = runtime
        self._teach = teach
        self._loaded: dict[bytes, tuple[Loaded, Model]] = {}
        self._turns = Counter[str]()
        self.calls: list[tuple[Cut, dict[str, Value]]] = []

    def run(self, op: OpView, blobs: Blobs) -> Results:
        """Run one operator. What it wrote is kept as it is; what the net goes on with is the teacher's."""
        key = op.proto.SerializeToString(deterministic=True)
        if key not in self._loaded:
            model = Model(NetDef(name="step", op=[op.proto]))
            self._loaded[key] = self._runtime.load(model), model
        loaded, model = self._loaded[key]
        read, written = reads_and_writes(op)
        given = {
            name: value for name in read if (value := blobs.get(name)) is not None and not isinstance(value, bytes)
        }
        inputs = {
            name: value for name, value in given.items() if isinstance(value, Int8Tensor) or hasattr(value, "dtype")
        }
        try:
            found = loaded.run(inputs, written)  # type: ignore[arg-type] # no device tensors here
        except RunError as error:
            raise RunError(f"{op.type} that writes {', '.join(op.outputs)}: {error}") from error
        values = {name: found[name] for name in written if name in found}
        self.calls.append((Cut(model, inputs, tuple(written)), values))  # type: ignore[arg-type] # the same
        taught = {}
        for name, value in values.items():
            turn = self._turns[name]
            self._turns[name] += 1
            taught[name] = self._teach(name, turn, value)
        return Results(taught, {}, {})


def reads_and_writes(op: OpView) -> tuple[list[str], list[str]]:
    """The blobs that an operator may read, with those of its bodies, and those that it may write."""
    read, written = dict.fromkeys(op.inputs), dict.fromkeys(op.outputs)
    control = control_of(op)
    for body in control.bodies.values() if control is not None else ():
        for inner in NetView(body.net).ops:
            reads, writes = reads_and_writes(inner)
            read.update(dict.fromkeys(reads))
            if control is not None and control.scope is Scope.SHARED:
                written.update(dict.fromkeys(writes))
    return list(read), list(written)


Match: TypeAlias = Callable[[Point], Point | None]


def by_turn(points: Sequence[Point]) -> dict[tuple[bool, str, int], Point]:
    """Points by name and turn, for a side of the same kind."""
    return {(point.walked, point.name, point.turn): point for point in points}
