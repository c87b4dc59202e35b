"""Nets run operator by operator: the values that each wrote, in a form that two sides share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from caffe2_backend.runtime import Int8Tensor
from caffe2_backend.runtime.blobs.frame import Frame
from caffe2_backend.runtime.blobs.results import Results
from caffe2_backend.runtime.stepping.stepper import trace_net
from caffe2_bridge.control import BodyScope, control_of
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.objects import makes_object
from caffe2_validation.runtimes import Loaded, Runtime, Value

# Operators whose bodies are stepped through.
WALKED = frozenset(["If", "AsyncIf", "While", "Do", "RecurrentNetwork"])


@dataclass(frozen=True)
class Cut:
    """One operator cut out of its net: a model of it alone, and its inputs."""

    model: Any = field(repr=False)
    inputs: Mapping[str, Value] = field(repr=False)
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Point:
    """One value that an operator wrote.

    Attributes:
        place: the location of the operator in its net; for ONNX nodes, in the net that they come from, if known.
        op_type: its type; node: its own name.
        iterations: of the loops around it, outermost first.
        name: the blob.
        turn: how many times the blob was written before; results of bodies are counted separately.
        walked: whether the operator's body was stepped through, and the value is the body's result.
        value: the value.
        cut: the operator alone; None if its body was stepped through.
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


class BlobFeeder(Protocol):
    """Replaces the values that operators write."""

    def __call__(self, name: str, turn: int, value: Value) -> Value:
        """Return the value to go on with."""
        ...


def keep_own_blob(name: str, turn: int, value: Value) -> Value:  # noqa: ARG001 - the names are the protocol's
    """Keep the net's own values."""
    return value


def net_points(runtime: Runtime, model: Model, inputs: Mapping[str, Any], feed: BlobFeeder = keep_own_blob) -> Points:
    """Run a net operator by operator, through bodies and step by step, and return every value written, in order.

    Raises RunError if an operator cannot be run, with its type and outputs.
    """
    memory = _Memory(start_blobs(runtime, model) | dict(inputs))
    makers = {op.outputs[0]: op.proto for op in model.init.rest if makes_object(op.proto)}
    runner = _Runner(runtime, feed, makers)
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
    """Return the blobs that the init net makes."""
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
    """Runs single operators in a runtime; each is loaded once, as a net of its own."""

    def __init__(self, runtime: Runtime, feed: BlobFeeder, makers: Mapping[str, OperatorDef]) -> None:
        self._runtime = runtime
        self._makers = makers  # of objects of the init net: an operator that reads one runs after its maker
        self._feed = feed
        self._loaded: dict[bytes, tuple[Loaded, Model]] = {}
        self._turns = Counter[str]()
        self.calls: list[tuple[Cut, dict[str, Value]]] = []

    def run(self, op: OpView, frame: Frame) -> None:
        """Run one operator. Its own values are kept in ``calls``; the net goes on with the feeder's."""
        key = op.proto.SerializeToString(deterministic=True)
        if key not in self._loaded:
            made = [self._makers[name] for name in dict.fromkeys(op.inputs) if name in self._makers]
            init = NetDef(name="init", op=made) if made else None
            model = Model.of(NetDef(name="step", op=[op.proto]), init)
            self._loaded[key] = self._runtime.load(model), model
        loaded, model = self._loaded[key]
        read, written = reads_and_writes(op)
        given = {
            name: value for name in read if (value := frame.get(name)) is not None and not isinstance(value, bytes)
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
        fed = {}
        for name, value in values.items():
            turn = self._turns[name]
            self._turns[name] += 1
            fed[name] = self._feed(name, turn, value)
        frame.commit(Results(fed))


def reads_and_writes(op: OpView) -> tuple[list[str], list[str]]:
    """Return the blobs that an operator may read, with those of its bodies, and those that it may write."""
    read, written = dict.fromkeys(op.inputs), dict.fromkeys(op.outputs)
    control = control_of(op)
    for body in control.bodies.values() if control is not None else ():
        for inner in NetView(body.net).ops:
            reads, writes = reads_and_writes(inner)
            read.update(dict.fromkeys(reads))
            if control is not None and control.scope is BodyScope.SHARED:
                written.update(dict.fromkeys(writes))
    return list(read), list(written)


def writer_counts(net: NetDef) -> Counter[str]:
    """Return how many operators of a net and its bodies write each blob; operators that have bodies do not count."""
    counts = Counter[str]()
    for op in NetView(net).ops:
        control = control_of(op)
        if op.type not in WALKED or control is None:
            counts.update(op.outputs)
        else:
            for body in control.bodies.values():
                counts += writer_counts(body.net)
    return counts


def by_turn(points: Sequence[Point]) -> dict[tuple[bool, str, int], Point]:
    """Return points by name and turn, which identify them on any side that is a net."""
    return {(point.walked, point.name, point.turn): point for point in points}
