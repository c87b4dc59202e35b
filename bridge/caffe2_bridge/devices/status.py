"""Propagate a status of values (a device, a layout, a type) along operators to a fixed point."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from google.protobuf.message import Message

from caffe2_bridge.devices.flow import Flow, FlowStep, build_flow
from caffe2_bridge.diagnostics import BridgeError, ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.ssa.versions import VersionedBlob

S = TypeVar("S")
Statuses = Sequence[S | None]
Updater = Callable[[FlowStep, list[S | None], list[S | None]], tuple[Statuses[S], Statuses[S]]]
StatusUpdater = Callable[[OperatorDef, list[S | None], list[S | None]], tuple[Statuses[S], Statuses[S]]]

_KNOWN: Final = -1


def propagate_status(
    net: Message | bytes,
    status_updater: StatusUpdater[S],
    known_status: Mapping[VersionedBlob, S],
) -> dict[VersionedBlob, S]:
    """Propagate statuses of blobs along operators until a fixed point is reached.

    An operator is updated again whenever the status of one of its operands becomes known, so the result does not depend
    on where in the net statuses are known. Bodies take part: a blob that a branch or loop leaves has one status.

    Args:
        net: the net.
        status_updater: from an operator and the statuses of its inputs and outputs (None: unknown) to those it
            concludes. It must not depend on the order in which things become known.
        known_status: what is known, by blob name and version as ``get_ssa`` counts; a value of None is ignored.

    Returns:
        The status of each versioned blob of which one is known. Raises ConversionError with all conflicts: both
        operators that determine the statuses of a blob are named; BridgeError where the updater does not return a
        status, or None, for each input and output.
    """
    flow = build_flow(as_net_def(net), Location("net"))
    known = known_values(flow, known_status)

    def update(step: FlowStep, inputs: list[S | None], outputs: list[S | None]) -> tuple[Statuses[S], Statuses[S]]:
        if step.proto is not None:
            return _checked(status_updater(step.proto, inputs, outputs), step)
        status = next((status for status in inputs if status is not None), None)
        return [status] * len(inputs), []

    found = FixedPoint(flow, update, known, "status").run()
    return {blob: status for blob, value in flow.versioned.items() if (status := found[value]) is not None}


def _checked(returned: tuple[Statuses[S], Statuses[S]], step: FlowStep) -> tuple[Statuses[S], Statuses[S]]:
    """Return what an updater returned. Raises BridgeError unless it is a status for each input and each output."""
    wanted = [len(step.inputs), len(step.outputs)]
    try:
        found = [len(statuses) for statuses in returned]
    except TypeError:
        found = []
    if found != wanted:
        raise BridgeError(
            f"status_updater must return two lists, of {wanted[0]} and {wanted[1]} statuses for {step.location}, "
            f"not {returned!r}"
        )
    return returned


def known_values(flow: Flow, known_status: Mapping[VersionedBlob, S]) -> dict[int, S]:
    """Return known statuses by value. Raises ConversionError for blobs that the net does not have."""
    for blob in known_status:
        if not isinstance(blob, tuple) or len(blob) != 2:
            raise BridgeError(f"the keys of known_status must be pairs (blob, version), not {blob!r}")
    missing = [blob for blob in known_status if blob not in flow.versioned]
    if missing:
        raise ConversionError(
            [
                Diagnostic(
                    "unknown-blob",
                    f"the net does not have version {version} of blob {name!r}",
                    hint="caffe2_bridge.get_ssa lists the versions",
                )
                for name, version in missing
            ]
        )
    return {flow.versioned[blob]: status for blob, status in known_status.items() if status is not None}


_PLURAL: Final = {"device": "devices", "status": "statuses"}


class FixedPoint(Generic[S]):
    """The worklist: every step runs once, and again when the status of one of its operands becomes known."""

    def __init__(self, flow: Flow, update: Updater[S], known: Mapping[int, S], what: str) -> None:
        self._flow = flow
        self._update = update
        self._what = what
        self.status: list[S | None] = [None] * len(flow.names)
        self._origin = [_KNOWN] * len(flow.names)
        self._findings: dict[int, Diagnostic] = {}
        self._contested: set[int] = set()
        self._failed: set[int] = set()
        for value, status in known.items():
            self.status[value] = status
        self._users: list[list[int]] = [[] for _ in flow.names]
        for number, step in enumerate(flow.steps):
            for value in {*step.inputs, *step.outputs}:
                self._users[value].append(number)

    def run(self) -> list[S | None]:
        """Return the status of each value. Raises ConversionError with every conflict."""
        waiting = deque(range(len(self._flow.steps)))
        queued = bytearray(b"\1" * len(waiting))
        while waiting:
            number = waiting.popleft()
            queued[number] = 0
            if number in self._failed:
                continue
            for value in self._step(number):
                for user in self._users[value]:
                    if user != number and not queued[user]:
                        queued[user] = 1
                        waiting.append(user)
        if self._findings:
            raise ConversionError([self._findings[number] for number in sorted(self._findings)])
        return self.status

    def _step(self, number: int) -> list[int]:
        """Run a step; return the values whose status it determined."""
        step, status = self._flow.steps[number], self.status
        inputs, outputs = [status[value] for value in step.inputs], [status[value] for value in step.outputs]
        after = self._update(step, inputs, outputs)
        changed = []
        for values, found in zip((step.inputs, step.outputs), after, strict=True):
            for value, new in zip(values, found, strict=True):
                known = status[value]
                if new is None or known == new:
                    continue
                if known is None:
                    self._origin[value] = self._source(step, number, new)
                    status[value] = new
                    changed.append(value)
                else:
                    self._conflict(number, value, new)
        return changed

    def _source(self, step: FlowStep, number: int, new: S) -> int:
        """Return the step that first determined a status which this one passes on: itself if no operand has it."""
        for value in (*step.inputs, *step.outputs):
            if self.status[value] == new:
                return self._origin[value]
        return number

    def _conflict(self, number: int, value: int, new: S) -> None:
        self._failed.add(number)
        if value in self._contested:
            return
        self._contested.add(value)
        step = self._flow.steps[number]
        sayings = (
            (new, self._source(step, number, new)),
            (self.status[value], self._origin[value]),
        )
        both = ", but ".join(f"{status} by {self._describe(origin)}" for status, origin in sayings)
        reason = f"blob {self._flow.names[value]!r} has conflicting {_PLURAL[self._what]}: {both}"
        self._findings[number] = Diagnostic(
            "device-conflict" if self._what == "device" else "status-conflict", reason, step.location
        )

    def _describe(self, origin: int) -> str:
        return str(self._flow.steps[origin].location) if origin != _KNOWN else "what was given"
