"""Nets run operator by operator, with every blob that they write, and on request through bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.results import Blobs, Results, value_of
from caffe2_backend.runtime.values import Array, NoBlobError, Opaque, Tensor, Value, to_host
from caffe2_bridge.control import ControlOperator, Do, If, RecurrentNetwork, Role, While
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse

RunOp = Callable[[OpView, Blobs], Results]
Commit = Callable[[Results], None]
_MOST_ITERATIONS: Final = 1_000_000


@dataclass(frozen=True)
class TraceStep:
    """One operator that ran: its location, the iterations of the loops around it, and the blobs that it wrote."""

    location: Location
    iterations: tuple[int, ...]
    blobs: Mapping[str, Array] = field(repr=False)


@dataclass(frozen=True)
class Trace:
    """Every operator that ran, in order."""

    steps: tuple[TraceStep, ...] = ()

    @property
    def blobs(self) -> dict[str, Array]:
        """The last value of every blob of the outermost net. Int8 tensors are their integers."""
        return {name: array for step in self.steps if not step.location.path for name, array in step.blobs.items()}

    def __iter__(self) -> Iterator[TraceStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)


def trace_net(net: NetDef, blobs: Blobs, commit: Commit, run: RunOp, *, bodies: bool, capture: bool) -> Trace:
    """Run a net operator by operator.

    Args:
        net: the net.
        blobs: of the workspace.
        commit: writes the results of an operator to the workspace.
        run: runs one operator.
        bodies: whether to step through bodies, too.
        capture: whether to keep values.

    Raises RunError, or ConversionError, where an operator cannot be run.
    """
    steps: list[TraceStep] = []
    walker = _Walker(run, steps, bodies=bodies, capture=capture)
    walker.net(net, _Frame(blobs, commit), Location(net.name or "net"), ())
    return Trace(tuple(steps))


class _Frame:
    """The outermost workspace."""

    def __init__(self, blobs: Blobs, commit: Commit) -> None:
        self._blobs = blobs
        self.commit = commit

    def get(self, name: str, /) -> Value | None:
        return value_of(name, self._blobs)


class _Inner:
    """The workspace of a body: blobs of its own, names bound to outer ones, views of rows, and what is around it."""

    def __init__(self, outer: _Frame | _Inner, *, sealed: bool, bound: Mapping[str, str] | None = None) -> None:
        self._outer = outer
        self._sealed = sealed
        self._bound = bound or {}
        self.own: dict[str, Value] = {}
        self.views: dict[str, Array] = {}

    def get(self, name: str, /) -> Value | None:
        if name in self.views:
            return self.views[name].copy()
        if name in self._bound:
            return self._outer.get(self._bound[name])
        if name in self.own:
            return self.own[name]
        return None if self._sealed else self._outer.get(name)

    def commit(self, results: Results) -> None:
        values: dict[str, Value] = {name: blob.compute(name) for name, blob in results.deferred.items()}
        values |= {**results.values, **results.objects}
        for name, value in values.items():
            if name in self.views:
                self._write(name, value)
            elif name in self._bound:
                self._outer.commit(_result(self._bound[name], value))
            else:
                self.own[name] = value

    def _write(self, name: str, value: Value) -> None:
        view = self.views[name]
        if isinstance(value, bytes | Opaque) or to_host(value).size != view.size:
            raise RunError(f"blob {name!r} is linked to rows of {view.size} elements, and something else is written")
        view[...] = to_host(value).reshape(view.shape)


def _result(name: str, value: Value) -> Results:
    if isinstance(value, Opaque):
        return Results({}, objects={name: value})
    assert not isinstance(value, bytes)
    return Results({name: value})


class _Walker:
    def __init__(self, run: RunOp, steps: list[TraceStep], *, bodies: bool, capture: bool) -> None:
        self._run = run
        self._steps = steps
        self._bodies = bodies
        self._capture = capture

    def net(self, net: NetDef, frame: _Frame | _Inner, place: Location, iterations: tuple[int, ...]) -> None:
        effects = analyse(net, place, [])
        for op, effect in zip(NetView(net).ops, effects.ops, strict=True):
            here = Location(place.net, op.index, op.type, op.name, place.path)
            try:
                if not (self._bodies and self._inside(effect.control, frame, here, iterations)):
                    frame.commit(self._run(op, frame))
            except ArgumentError as error:
                raise RunError(f"{here}: {error}") from None
            self._steps.append(TraceStep(here, iterations, self._captured(effect.changed, frame)))

    def _captured(self, names: tuple[str, ...], frame: _Frame | _Inner) -> dict[str, Array]:
        if not self._capture:
            return {}
        found = {}
        for name in dict.fromkeys(names):
            try:
                value = frame.get(name)
            except RunError:  # no tensor, or not written by the branch that ran
                continue
            if value is not None and not isinstance(value, bytes | Opaque):
                found[name] = to_host(value).copy()
        return found

    def _inside(
        self, control: ControlOperator | None, frame: _Frame | _Inner, here: Location, iterations: tuple[int, ...]
    ) -> bool:
        """Go through the bodies of an operator; false where it is not one whose bodies are gone through."""
        match control:
            case If():
                self._branch(control, frame, here, iterations)
            case While():
                self._loop(control, frame, here, iterations)
            case Do():
                inner = _Inner(frame, sealed=True, bound=control.bindings)
                self.net(control.net, inner, here.enter("net"), iterations)
            case RecurrentNetwork():
                self._recurrent(control, frame, here, iterations)
            case _:
                return False
        return True

    def _branch(self, control: If, frame: _Frame | _Inner, here: Location, iterations: tuple[int, ...]) -> None:
        name = control.taken(condition=_truth(frame, control.op.inputs[0], here))
        if name in control.bodies:
            self.net(control.bodies[name].net, frame, here.enter(name), iterations)

    def _loop(self, control: While, frame: _Frame | _Inner, here: Location, iterations: tuple[int, ...]) -> None:
        *tests, body = control.bodies.values()
        for i in range(_MOST_ITERATIONS):
            for test in tests:
                self.net(test.net, frame, here.enter(test.argument), (*iterations, i))
            if not _truth(frame, control.op.inputs[0], here):
                return
            self.net(body.net, frame, here.enter(body.argument), (*iterations, i))
        raise RunError(f"{here}: did not end after {_MOST_ITERATIONS} iterations")

    def _recurrent(
        self, control: RecurrentNetwork, frame: _Frame | _Inner, here: Location, iterations: tuple[int, ...]
    ) -> None:
        op, spec = control.op, control.spec
        sequence = _array(frame, op.inputs[0], here)
        if sequence.ndim < 2:
            raise RunError(f"{here}: the input sequence has {sequence.ndim} dims, and two are needed at least")
        steps, batch = sequence.shape[:2]
        states = self._states(control, frame, here, steps, batch)
        rows: dict[str, Array] = dict(states)
        for link in spec.links:
            if link.external not in rows:
                rows[link.external] = _array(frame, link.external, here).copy()
        (body,) = (body for body in control.bodies.values() if body.role is Role.RUN)
        for t in range(steps):
            inner = _Inner(frame, sealed=False)
            inner.own.update(states)
            inner.own[spec.timestep] = np.array([t], np.int32)
            for link in spec.links:
                inner.views[link.internal] = rows[link.external][t + link.offset : t + link.offset + link.window]
            self.net(body.net, inner, here.enter(body.argument), (*iterations, t))
        results: dict[str, Tensor] = dict(states)
        written = {link.external for link in spec.links} - set(states) - set(op.inputs)
        results.update((name, rows[name]) for name in written)
        for alias in spec.aliases:
            results[alias.blob] = rows[alias.source][alias.offset :].copy()
        frame.commit(Results(results))

    @staticmethod
    def _states(
        control: RecurrentNetwork, frame: _Frame | _Inner, here: Location, steps: int, batch: int
    ) -> dict[str, Array]:
        """States with their initial rows, and scratches."""
        states = {}
        for state in control.spec.states:
            initial = _array(frame, control.op.inputs[state.initial], here)
            first = initial.shape[0] if initial.ndim == 3 else 1
            rows = np.zeros((steps + first, batch, initial.shape[-1]), np.float32)
            rows[:first] = initial
            states[state.blob] = rows
        for scratch in control.spec.scratches:
            states[scratch.blob] = np.zeros((steps, batch, scratch.size), np.float32)
        return states


def _array(frame: _Frame | _Inner, name: str, here: Location) -> Any:
    value = frame.get(name)
    if value is None or isinstance(value, bytes | Opaque):
        raise NoBlobError(f"{here} reads blob {name!r}, which is not a tensor in the workspace")
    return to_host(value)


def _truth(frame: _Frame | _Inner, name: str, here: Location) -> bool:
    array = _array(frame, name, here)
    if array.size != 1:
        raise RunError(f"{here}: the condition {name!r} has {array.size} elements, and one is needed")
    return bool(array.reshape(-1)[0])
