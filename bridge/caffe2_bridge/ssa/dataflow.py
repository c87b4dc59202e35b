"""Check that every blob has a value when it is read, and that no operator lists an output twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.control import BodyScope, ControlOperator, Role, Runs
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, analyse

_NET: Final = Location("net")


def check_dataflow(net: Message | bytes, known: Collection[str] = (), *, location: Location = _NET) -> list[Diagnostic]:
    """Report all errors in the flow of blobs through a net and its bodies, in net order.

    Args:
        net: the net.
        known: blobs that exist before the net runs, apart from its external inputs, such as those of an init net.
        location: the name and the enclosing operators of the net.

    Returns:
        Diagnostics with the codes ``duplicate-output`` (an operator lists an output twice), ``undefined-blob`` (a blob
        is read before anything writes it; only where the net declares external inputs, or in a body that sees bound
        blobs alone; the first reader of a blob is reported) and ``invalid-argument`` (an argument of an operator with
        bodies is wrong).
    """
    proto = as_net_def(net)
    findings: list[Diagnostic] = []
    effects = analyse(proto, location, findings)
    return check_effects(effects, known, location, findings)


def check_effects(
    effects: NetEffects, known: Collection[str], location: Location, findings: list[Diagnostic]
) -> list[Diagnostic]:
    """Check a net whose effects are known; ``findings`` are the diagnostics of the analysis."""
    visible = _Visible(None, closed=bool(effects.net.external_input))
    visible.add(effects.net.external_input)
    visible.add(known)
    _Checker(findings).net(effects, visible, location)
    return sorted(findings, key=lambda finding: _order(finding.location))


def _order(location: Location) -> list[int]:
    return [-1 if here.index is None else here.index for here in (*location.path, location)]


class _Visible:
    """Names visible in a body: its own, and those of the body around it. Where it is not closed, every name is."""

    __slots__ = ("_names", "_parent", "closed")

    def __init__(self, parent: _Visible | None, *, closed: bool) -> None:
        self._parent = parent
        self._names: set[str] = set()
        self.closed = closed

    def add(self, names: Iterable[str]) -> None:
        self._names.update(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names or not self.closed or (self._parent is not None and name in self._parent)

    def inner(self) -> _Visible:
        return _Visible(self, closed=self.closed)


class _Checker:
    """Walks a net and its bodies in the order in which they run and collects diagnostics."""

    def __init__(self, findings: list[Diagnostic]) -> None:
        self.findings = findings

    def net(self, effects: NetEffects, visible: _Visible, location: Location) -> None:
        for index, (proto, op) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            names, outputs = list(proto.input), list(proto.output)
            undefined = [name for name in dict.fromkeys(names) if name and name not in visible]
            repeated = len(set(outputs)) != len(outputs)
            if undefined or repeated or op.control is not None:
                here = Location(location.net, index, proto.type, proto.name, location.path)
                self.undefined(undefined, visible, here)
                if repeated:
                    self.duplicates(outputs, here)
                if op.control is not None:
                    self.bodies(op.control, op, visible, here)
            visible.add(outputs)
            visible.add(op.changed)

    def undefined(self, names: list[str], visible: _Visible, here: Location) -> None:
        for name in names:
            reason = (
                f"the operator reads blob {name!r}, which no earlier operator writes and which is not an external input"
            )
            self.findings.append(Diagnostic("undefined-blob", reason, here))
        visible.add(names)

    def duplicates(self, outputs: list[str], here: Location) -> None:
        for name in dict.fromkeys(outputs):
            if name and outputs.count(name) > 1:
                reason = f"the operator lists output {name!r} {outputs.count(name)} times"
                self.findings.append(
                    Diagnostic("duplicate-output", reason, here, hint="give each output a name of its own")
                )

    def bodies(self, control: ControlOperator, effects: OpEffects, visible: _Visible, here: Location) -> None:
        inside = self.inside(control, effects, visible)
        for name, body in effects.bodies.items():
            role = control.bodies[name].role
            if role is Role.PAST:
                inside.add(body.may)
            elif role is Role.RUN:
                own = inside.inner() if control.runs is Runs.BRANCH else inside
                self.net(body, own, here.enter(name))

    @staticmethod
    def inside(control: ControlOperator, effects: OpEffects, visible: _Visible) -> _Visible:
        """Return what bodies see when the operator starts."""
        if control.scope is BodyScope.SEALED:
            result = _Visible(None, closed=not control.keeps_blobs)
            formals = (formal for name in effects.bodies for formal in control.bodies[name].formals)
            result.add(formal.name for formal in formals if formal.source is None or formal.source in visible)
            return result
        result = visible.inner()
        result.add(control.own_names)
        result.add(control.fills)
        return result
