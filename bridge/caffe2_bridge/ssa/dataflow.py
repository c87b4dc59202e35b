"""Checks that every blob is there when it is read, and that no operator writes one blob twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import OpView, as_net_def
from caffe2_bridge.ssa.effects import (
    BRANCHES,
    RECURRENT,
    NetEffects,
    OpEffects,
    analyse,
    do_bindings,
    loop_formals,
    step_names,
)

_NET: Final = Location("net")


def check_dataflow(net: Message | bytes, known: Collection[str] = (), *, location: Location = _NET) -> list[Diagnostic]:
    """All findings about the flow of blobs through a net and its bodies, in net order.

    ``known`` are blobs that exist before the net runs beside its external inputs, such as those of an init net. Codes:
    ``duplicate-output`` (an operator lists an output twice), ``undefined-blob`` (a blob is read and nothing before
    wrote it; only where the net declares external inputs, or in a Do, which sees nothing but what it binds; the first
    reader of a blob is reported) and ``invalid-argument`` (the body of a control operator cannot be read). ``location``
    gives the name and the enclosing operators of the net.
    """
    proto = as_net_def(net)
    findings: list[Diagnostic] = []
    effects = analyse(proto, location, findings)
    return check_effects(effects, known, location, findings)


def check_effects(
    effects: NetEffects, known: Collection[str], location: Location, findings: list[Diagnostic]
) -> list[Diagnostic]:
    """As check_dataflow, for a net whose effects are known; ``findings`` are those of the analysis."""
    visible = _Scope(None, closed=bool(effects.net.external_input))
    visible.add(effects.net.external_input)
    visible.add(known)
    _Checker(findings).net(effects, visible, location)
    return sorted(findings, key=lambda finding: _order(finding.location))


def _order(location: Location) -> list[int]:
    return [-1 if place.index is None else place.index for place in (*location.path, location)]


class _Scope:
    """Names visible in a body: its own, and those of the scope around it. A scope that is not closed sees anything."""

    __slots__ = ("_names", "_parent", "closed")

    def __init__(self, parent: _Scope | None, *, closed: bool) -> None:
        self._parent = parent
        self._names: set[str] = set()
        self.closed = closed

    def add(self, names: Iterable[str]) -> None:
        self._names.update(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names or not self.closed or (self._parent is not None and name in self._parent)

    def inner(self) -> _Scope:
        return _Scope(self, closed=self.closed)


class _Checker:
    """Walks a net and its bodies in the order in which they run and collects findings."""

    def __init__(self, findings: list[Diagnostic]) -> None:
        self.findings = findings

    def net(self, effects: NetEffects, visible: _Scope, location: Location) -> None:
        for index, (proto, op) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            names, outputs = list(proto.input), list(proto.output)
            undefined = [name for name in dict.fromkeys(names) if name and name not in visible]
            repeated = len(set(outputs)) != len(outputs)
            if undefined or repeated or op.bodies:
                place = Location(location.net, index, proto.type, proto.name, location.path)
                self.undefined(undefined, visible, place)
                if repeated:
                    self.duplicates(outputs, place)
                if op.bodies:
                    self.bodies(OpView(proto, index), op, visible, place)
            visible.add(outputs)
            for more in (op.writes, op.updates, op.merges):
                visible.add(more)

    def undefined(self, names: list[str], visible: _Scope, place: Location) -> None:
        for name in names:
            reason = f"reads blob {name!r}, which nothing before it writes and which is no external input"
            self.findings.append(Diagnostic("undefined-blob", reason, place))
        visible.add(names)

    def duplicates(self, outputs: list[str], place: Location) -> None:
        for name in dict.fromkeys(outputs):
            if name and outputs.count(name) > 1:
                reason = f"lists output {name!r} {outputs.count(name)} times"
                self.findings.append(Diagnostic("duplicate-output", reason, place))

    def bodies(self, op: OpView, effects: OpEffects, visible: _Scope, place: Location) -> None:
        if op.type in BRANCHES:
            for name, body in effects.bodies.items():
                self.net(body, visible.inner(), place.enter(name))
        elif op.type == "Do":
            sees_all = bool(op.proto.is_gradient_op) or op.args.flag("reuse_workspace", default=False)
            inside = _Scope(None, closed=not sees_all)
            inside.add(inner for inner, outer in do_bindings(op).items() if outer in visible)
            self.net(effects.bodies["net"], inside, place.enter("net"))
        elif op.type in RECURRENT:
            inside = visible.inner()
            inside.add(step_names(op))
            inside.add(op.args.texts("recurrent_states", ()))
            name = "step_net"
            if op.type == "RecurrentNetworkGradient":
                inside.add(effects.bodies["step_net"].may)
                name = "backward_step_net"
            if name in effects.bodies:
                self.net(effects.bodies[name], inside, place.enter(name))
        else:  # While runs its condition first; ONNXWhile has parameters
            inside = visible.inner()
            for name, body in effects.bodies.items():
                if op.type == "ONNXWhile":
                    inside.add(loop_formals(op, body.net))
                self.net(body, inside, place.enter(name))
