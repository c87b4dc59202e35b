"""Nets run operator by operator, with every blob that they write, and on request through bodies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from caffe2_backend.runtime.blobs.files import Files, IsolatedFiles
from caffe2_backend.runtime.blobs.frame import NEVER, Frame
from caffe2_backend.runtime.blobs.results import Blobs, Results, value_of
from caffe2_backend.runtime.stepping.bodies import BodyRunner
from caffe2_backend.runtime.values import Array, HostObject, Value, to_host
from caffe2_bridge.bounds import current_limits
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse

RunOp = Callable[[OpView, Frame], None]
Commit = Callable[[Results], None]
Updating = Callable[[tuple[str, ...]], AbstractContextManager[object]]


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


def _alone(_: tuple[str, ...], /) -> AbstractContextManager[object]:
    return nullcontext()


def trace_net(
    net: NetDef,
    blobs: Blobs,
    commit: Commit,
    run: RunOp,
    *,
    bodies: bool,
    capture: bool,
    updating: Updating = _alone,
    files: Files | None = None,
) -> Trace:
    """Run a net operator by operator.

    Args:
        net: the net.
        blobs: of the workspace.
        commit: writes the results of an operator to the workspace.
        run: runs one operator: reads and writes blobs of the frame that it is given.
        bodies: whether to step through bodies, too.
        capture: whether to keep values.
        updating: see Frame; by default nobody else updates blobs.
        files: see Frame; by default a folder of its own.

    Raises RunError, or ConversionError, where an operator cannot be run.
    """
    steps: list[TraceStep] = []
    walker = _Walker(run, steps, bodies=bodies, capture=capture)
    walker.net(net, _Outermost(blobs, commit, updating, files or IsolatedFiles()), Location(net.name or "net"), ())
    return Trace(tuple(steps))


class _Outermost:
    """The outermost workspace, as a frame; its blobs are only read, and never overwritten."""

    held: Final = 0
    writes: Final = NEVER
    constants: Mapping[str, Value] = MappingProxyType({})

    def __init__(self, blobs: Blobs, commit: Commit, updating: Updating, files: Files) -> None:
        self._blobs = blobs
        self._commit = commit
        self.updating = updating
        self.files = files
        self.lock = threading.RLock()

    @property
    def view(self) -> Blobs:
        return self

    def get(self, name: str, /) -> Value | None:
        return value_of(name, self._blobs)

    def commit(self, results: Results, *, constant: bool = False) -> None:  # noqa: ARG002 - the protocol's
        self._commit(results)

    def clear(self, name: str, /) -> None:
        """Keep the value: only operators that the caller runs would leave a blob without one."""

    def names(self) -> set[str]:
        return set()

    def own_names(self) -> set[str]:
        return set()

    def draw_seed(self) -> int:
        return int(np.random.default_rng().integers(2**62))


class _Walker:
    def __init__(self, run: RunOp, steps: list[TraceStep], *, bodies: bool, capture: bool) -> None:
        self._run = run
        self._steps = steps
        self._bodies = BodyRunner(self.net, most_iterations=current_limits().iterations) if bodies else None
        self._capture = capture

    def net(self, net: NetDef, frame: Frame, location: Location, iterations: tuple[int, ...]) -> None:
        effects = analyse(net, location, [])
        for op, effect in zip(NetView(net).ops, effects.ops, strict=True):
            here = Location(location.net, op.index, op.type, op.name, location.path)
            try:
                if self._bodies is None or not self._bodies.enter(effect.control, frame, here, iterations):
                    self._run(op, frame)
            except ArgumentError as error:
                raise RunError(f"{here}: {error}") from None
            self._steps.append(TraceStep(here, iterations, self._captured(effect.changed, frame)))

    def _captured(self, names: tuple[str, ...], frame: Frame) -> dict[str, Array]:
        if not self._capture:
            return {}
        found = {}
        for name in dict.fromkeys(names):
            try:
                value = value_of(name, frame)
            except RunError:  # no tensor, or not written by the branch that ran
                continue
            if value is not None and not isinstance(value, bytes | HostObject):
                found[name] = to_host(value).copy()
        return found
