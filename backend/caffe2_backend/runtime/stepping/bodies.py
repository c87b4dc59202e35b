"""The bodies of If, While, Do and RecurrentNetwork, run one by one on the host in workspaces of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.blobs.files import Files
from caffe2_backend.runtime.blobs.frame import NEVER, Frame, results_of, written
from caffe2_backend.runtime.blobs.results import Blobs, DeferredBlob, Results, value_of
from caffe2_backend.runtime.values import Array, HostObject, NoBlobError, Tensor, Value, to_host
from caffe2_bridge.bounds import hint_of
from caffe2_bridge.control import ControlOperator, Do, If, RecurrentNetwork, Role, While
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

# Types of the operators whose bodies can be run one by one.
WALKED: Final = frozenset((*If.types, *While.types, *Do.types, *RecurrentNetwork.types))


# Runs a body in a frame, at a location, in these iterations of the loops around it.
RunBody = Callable[[NetDef, Frame, Location, tuple[int, ...]], None]


class InnerFrame:
    """The workspace of a body: blobs of its own, names bound to outer ones, views of rows, and what is around it.

    Args:
        outer: the workspace around it.
        sealed: whether blobs around it are found only under the names that ``bound`` gives them.
        bound: outer blobs by inner name.
    """

    held: Final = 0
    writes: Final = NEVER
    constants: Mapping[str, Value] = MappingProxyType({})

    def __init__(self, outer: Frame, *, sealed: bool, bound: Mapping[str, str] | None = None) -> None:
        self._outer = outer
        self._sealed = sealed
        self._bound = bound or {}
        self.own: dict[str, Value | DeferredBlob] = {}
        self.views: dict[str, Array] = {}

    @property
    def lock(self) -> threading.RLock:
        """That of the workspace around it."""
        return self._outer.lock

    @property
    def files(self) -> Files:
        """That of the workspace around it."""
        return self._outer.files

    @property
    def view(self) -> Blobs:
        """The blobs as a run reads them."""
        return self

    def draw_seed(self) -> int:
        """Return a seed for the random fills of one run."""
        return self._outer.draw_seed()

    def get(self, name: str, /) -> Value | DeferredBlob | None:
        """Return the blob's value, or how to compute it; None if it does not exist."""
        if name in self.views:
            return self.views[name].copy()
        if name in self._bound:
            return self._outer.get(self._bound[name])
        if name in self.own:
            return self.own[name]
        return None if self._sealed else self._outer.get(name)

    def commit(self, results: Results, *, constant: bool = False) -> None:  # noqa: ARG002 - the protocol's
        """Write the results of a run."""
        for name, value in written(results):
            if name not in self.views and name not in self._bound:
                self.own[name] = value
                continue
            known = value.compute(name) if isinstance(value, DeferredBlob) else value
            if name in self.views:
                self._write(name, known)
            else:
                self._outer.commit(results_of(self._bound[name], known))

    def names(self) -> set[str]:
        """Return the names of all blobs that are found here."""
        inner = {*self.own, *self.views, *self._bound}
        return inner if self._sealed else inner | self._outer.names()

    def own_names(self) -> set[str]:
        """Return the names of the blobs that are here, and not around it."""
        return {*self.own, *self.views}

    def clear(self, name: str, /) -> None:
        """Leave a blob without a value."""
        if name in self._bound:
            self._outer.clear(self._bound[name])
        elif name in self.own or self._sealed or self._outer.get(name) is None:
            self.own.pop(name, None)
        else:
            self._outer.clear(name)

    def updating(self, names: tuple[str, ...], /) -> AbstractContextManager[object]:
        """Let nobody else update those of these blobs within the block that are not this frame's own."""
        bound = (self._bound[name] for name in names if name in self._bound)
        own = self.own.keys() | self.views.keys() | self._bound.keys()
        seen = () if self._sealed else (name for name in names if name not in own)
        outer = (*bound, *seen)
        return self._outer.updating(outer) if outer else nullcontext()

    def _write(self, name: str, value: Value) -> None:
        view = self.views[name]
        if isinstance(value, bytes | HostObject) or to_host(value).size != view.size:
            raise RunError(f"blob {name!r} is linked to rows of {view.size} elements, and something else is written")
        array = to_host(value)
        view[...] = array.reshape(view.shape)
        self.views[name] = view.reshape(array.shape)  # as the rest of this step sees it


class BodyRunner:
    """Goes through the bodies of operators.

    Args:
        run: runs a body.
        most_iterations: the number of iterations after which a While is given up; None does not limit it.
    """

    def __init__(self, run: RunBody, *, most_iterations: int | None = None) -> None:
        self._run = run
        self._most = most_iterations

    def enter(self, control: ControlOperator | None, frame: Frame, here: Location, iterations: tuple[int, ...]) -> bool:
        """Go through the bodies of an operator; return False where it is not one whose bodies can be gone through."""
        match control:
            case If():
                self._branch(control, frame, here, iterations)
            case While():
                self._loop(control, frame, here, iterations)
            case Do():
                inner = InnerFrame(frame, sealed=True, bound=control.bindings)
                self._run(control.net, inner, here.enter("net"), iterations)
            case RecurrentNetwork():
                self._recurrent(control, frame, here, iterations)
            case _:
                return False
        return True

    def _branch(self, control: If, frame: Frame, here: Location, iterations: tuple[int, ...]) -> None:
        name = control.taken(condition=_truth(frame, control.op.inputs[0], here))
        if name in control.bodies:
            self._run(control.bodies[name].net, frame, here.enter(name), iterations)

    def _loop(self, control: While, frame: Frame, here: Location, iterations: tuple[int, ...]) -> None:
        *tests, body = control.bodies.values()
        turns: Iterable[int] = count() if self._most is None else range(self._most)
        for i in turns:
            for test in tests:
                self._run(test.net, frame, here.enter(test.argument), (*iterations, i))
            if not _truth(frame, control.op.inputs[0], here):
                return
            self._run(body.net, frame, here.enter(body.argument), (*iterations, i))
        wanted = 10 * (self._most or 1)
        raise RunError(f"{here}: did not end after {self._most} iterations ({hint_of('iterations', wanted)})")

    def _recurrent(self, control: RecurrentNetwork, frame: Frame, here: Location, iterations: tuple[int, ...]) -> None:
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
            inner = InnerFrame(frame, sealed=False)
            inner.own.update(states)
            inner.own[spec.timestep] = np.array([t], np.int32)
            for link in spec.links:
                inner.views[link.internal] = rows[link.external][t + link.offset : t + link.offset + link.window]
            self._run(body.net, inner, here.enter(body.argument), (*iterations, t))
        results: dict[str, Tensor] = dict(states)
        made = {link.external for link in spec.links} - set(states) - set(op.inputs)
        results.update((name, rows[name]) for name in made)
        for alias in spec.aliases:
            results[alias.blob] = rows[alias.source][alias.offset :].copy()
        frame.commit(Results(results))

    @staticmethod
    def _states(control: RecurrentNetwork, frame: Frame, here: Location, steps: int, batch: int) -> dict[str, Array]:
        """Return states with their initial rows, and scratches."""
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


def _array(frame: Frame, name: str, here: Location) -> Any:
    with frame.lock:
        value = value_of(name, frame)
    if value is None or isinstance(value, bytes | HostObject):
        raise NoBlobError(f"{here} reads blob {name!r}, which is not a tensor in the workspace")
    return to_host(value)


def _truth(frame: Frame, name: str, here: Location) -> bool:
    array = _array(frame, name, here)
    if array.size != 1:
        raise RunError(f"{here}: the condition {name!r} has {array.size} elements, and one is needed")
    if array.dtype != np.bool_:
        raise RunError(f"{here}: the condition {name!r} must be bool, not {array.dtype}")
    return bool(array.reshape(-1)[0])
