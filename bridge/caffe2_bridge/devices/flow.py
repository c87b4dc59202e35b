"""The values of a net and its bodies in one graph: which operators use them, and which must be on one device."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from caffe2_bridge.control import Body, BodyScope, ControlOperator, Place, Role, Runs, control_of
from caffe2_bridge.devices.operand_sides import Side, Sides, all_same, is_plain, operand_sides
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.versions import VersionedBlob


@dataclass(slots=True, eq=False)
class FlowStep:
    """An operator; or, without ``proto``, the condition that all its inputs are on one device, or on the host.

    Operands are indices of values. ``control``: it has bodies, and only hands its operands to them.
    """

    net: Location
    index: int
    proto: OperatorDef | None
    inputs: list[int]
    outputs: list[int]
    sides: Sides
    control: ControlOperator | None = None

    @property
    def plain(self) -> bool:
        """Whether all its operands are where it is."""
        return Side.HOST not in self.sides[0] if self.proto is None else is_plain(self.proto)

    @property
    def is_dispatch(self) -> bool:
        """Whether it computes nothing itself: it looks at a condition on the host and hands operands to its bodies."""
        return self.control is not None and not self.control.computes

    @property
    def location(self) -> Location:
        """The location of the operator."""
        if self.proto is None:
            return self.net
        return Location(self.net.net, self.index, self.proto.type, self.proto.name, self.net.path)


@dataclass(slots=True, eq=False)
class Flow:
    """The operators and conditions of a net and its bodies, in the order in which they first run.

    ``names`` holds the blob of each value, ``versioned`` the values of the net itself as ``get_ssa`` counts them,
    ``last`` those at its end.
    """

    steps: list[FlowStep] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    versioned: dict[VersionedBlob, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def value(self, name: str) -> int:
        """Return a new value of a blob."""
        self.names.append(name)
        return len(self.names) - 1


class _Values:
    """The values that names have in a workspace. A read that nothing wrote is a value at the entry of ``root``."""

    __slots__ = ("flow", "found", "parent", "root", "written")

    def __init__(self, flow: Flow, parent: _Values | None = None) -> None:
        self.flow = flow
        self.parent = parent
        self.root: _Values = self if parent is None else parent.root
        self.found: dict[str, int] = {}  # at entry: bound by the operator, or read and nowhere written
        self.written: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        scope: _Values | None = self
        while scope is not None:
            value = scope.written.get(name)
            if value is None:
                value = scope.found.get(name)
            if value is not None:
                return value
            scope = scope.parent
        return None

    def read(self, name: str) -> int:
        value = self.get(name)
        if value is None:
            value = self.root.found[name] = self.flow.value(name)
        return value

    def write(self, name: str) -> int:
        value = self.written[name] = self.flow.value(name)
        return value


def build_flow(net: NetDef, location: Location) -> Flow:
    """Return the graph of a net. Raises ConversionError where an argument or a body cannot be read."""
    flow = Flow()
    scope = _Values(flow)
    for name in net.external_input:
        flow.versioned[name, 0] = scope.read(name)
    _Builder(flow).net(net, scope, location, flow.versioned)
    for name, value in scope.found.items():
        flow.versioned.setdefault((name, 0), value)
    flow.last = {**scope.found, **scope.written}
    return flow


class _Builder:
    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    def net(
        self, net: NetDef, scope: _Values, location: Location, versioned: dict[VersionedBlob, int] | None = None
    ) -> None:
        """Add the operators of a net; with ``versioned`` note the values under their versions."""
        counts: dict[str, int] = {}
        for index, proto in enumerate(net.op):
            try:
                self._operator(index, proto, scope, location)
            except ArgumentError as error:
                where = Location(location.net, index, proto.type, proto.name, location.path)
                raise ConversionError([Diagnostic("invalid-argument", str(error), where)]) from None
            if versioned is not None:
                for name in proto.output:  # a blob that is listed twice has the version of the last
                    counts[name] = counts.get(name, 0) + 1
                for name in dict.fromkeys(proto.output):
                    versioned[name, counts[name]] = scope.written[name]

    def _operator(self, index: int, proto: OperatorDef, scope: _Values, location: Location) -> None:
        inputs = [scope.read(name) for name in proto.input]
        control = control_of(OpView(proto, index))
        step = FlowStep(location, index, proto, inputs, [], operand_sides(proto), control)
        self.flow.steps.append(step)
        if control is not None:
            self._control(step, control, scope)
        else:
            made = [scope.write(name) for name in proto.output]
            step.outputs = made if len(made) == 1 else [scope.written[name] for name in proto.output]

    def join(self, values: Iterable[int | None], location: Location) -> None:
        """Require all these values on one device."""
        together = list(dict.fromkeys(value for value in values if value is not None))
        if len(together) > 1:
            self.flow.steps.append(FlowStep(location, 0, None, together, [], all_same(len(together), 0)))

    def hold(self, values: Iterable[int], location: Location) -> None:
        """Require these values on the host."""
        for value in values:
            self.flow.steps.append(FlowStep(location, 0, None, [value], [], ((Side.HOST,), ())))

    def _control(self, step: FlowStep, control: ControlOperator, scope: _Values) -> None:
        location = step.location
        if control.computes:
            self._compute(step, control, scope, location)
        else:
            written = self._dispatch(control, scope, location)
            for name in dict.fromkeys(control.op.outputs):
                if name not in written:
                    self._leave(name, [scope.get(name)], scope, location)
        if control.runs is Runs.LOOP and control.condition is not None:
            self.hold([scope.read(control.condition)], location)
        step.outputs = [scope.read(name) for name in control.op.outputs]

    def _dispatch(self, control: ControlOperator, scope: _Values, location: Location) -> Container[str]:
        """Walk the bodies of an operator that computes nothing itself; the outer blobs that they write."""
        match control.scope:
            case BodyScope.SHARED:
                return self._shared(control, scope, location)
            case BodyScope.SEALED:
                return self._sealed(control, scope, location)
            case BodyScope.NESTED:
                return self._nested(control, scope, location)

    def _leave(self, name: str, values: Iterable[int | None], scope: _Values, location: Location) -> None:
        """Write a blob that an operator with bodies leaves: it is where the values are that it may have."""
        values = list(values)
        self.join([*values, scope.write(name)], location)

    def _shared(self, control: ControlOperator, scope: _Values, location: Location) -> Container[str]:
        """Add bodies: branches leave their own values or those before; iterations find what the one before left."""
        branches = control.runs is Runs.BRANCH
        inner = _Values(self.flow, scope)
        parts: list[dict[str, int]] = []
        for body in control.bodies.values():
            if branches:
                inner = _Values(self.flow, scope)
            self.net(body.net, inner, location.enter(body.argument))
            parts.append(inner.written)
        if not branches or len(control.bodies) < len(control.arguments):
            parts.append({})  # it may be that no body runs
        names = dict.fromkeys(name for part in parts for name in part)
        for name in names:
            prior = scope.get(name)
            self._leave(name, [part.get(name, prior) for part in parts], scope, location)
        return names

    def _sealed(self, control: ControlOperator, scope: _Values, location: Location) -> Container[str]:
        """Add bodies that find and leave outer blobs under other names; their own may persist until the next run."""
        left: dict[str, int] = {}
        for body in control.bodies.values():
            inner = _Values(self.flow)
            bound = {formal.name: formal.source for formal in body.formals if formal.source is not None}
            for name, outer in bound.items():
                known = scope.get(outer)
                if known is not None:
                    inner.found[name] = known
            self.net(body.net, inner, location.enter(body.argument))
            for name, value in inner.written.items():
                if name not in bound and name in inner.found:
                    self.join([inner.found[name], value], location)
            left.update({outer: inner.written[name] for name, outer in bound.items() if name in inner.written})
        for outer, value in left.items():
            self._leave(outer, [value], scope, location)
        return left

    def _nested(self, control: ControlOperator, scope: _Values, location: Location) -> Container[str]:
        """Add bodies that find formals and outer blobs, and write their own; results become formals and outputs."""
        left: dict[str, list[int | None]] = {}
        inner = scope
        for body in control.bodies.values():
            if body.role is Role.CARRIED:
                continue
            inner = _Values(self.flow, inner)
            self._enter(body, inner, location)
            for result in body.results:
                value = inner.read(result.name)
                if result.formal is None and result.output is None:
                    self.hold([value], location)
                    continue
                values: list[int | None] = [value]
                if result.formal is not None:
                    source = result.formal.source
                    values += [None if source is None else scope.read(source), inner.found[result.formal.name]]
                if result.output is not None:
                    left[result.output] = values
                else:
                    self.join(values, location)
        for name, values in left.items():
            self._leave(name, values, scope, location)
        return left

    def _enter(self, body: Body, inner: _Values, location: Location) -> None:
        """Bind the formals and walk the body. A view and the blob that it is of stay in one place."""
        around = inner.parent or inner
        views = {formal.name: around.read(formal.source) for formal in body.formals if formal.is_view and formal.source}
        for formal in body.formals:
            inner.found[formal.name] = views[formal.name] if formal.is_view else self.flow.value(formal.name)
            if formal.place is Place.HOST:
                self.hold([inner.found[formal.name]], location)
        self.net(body.net, inner, location.enter(body.argument))
        for name, external in views.items():
            if name in inner.written:
                self.join([external, inner.written[name]], location)

    def _compute(self, step: FlowStep, control: ControlOperator, scope: _Values, location: Location) -> None:
        """Walk an operator that computes on its device: its blobs are there, and its bodies see them."""
        op = control.op
        for name in dict.fromkeys(op.outputs):
            scope.write(name)
        here = [value for value, side in zip(step.inputs, step.sides[0], strict=True) if side is Side.SAME]
        created = dict.fromkeys(control.creates)
        here += [scope.read(name) if name in op.outputs else scope.write(name) for name in created]
        here += [scope.read(name) for name in dict.fromkeys(control.viewed)]
        here += [scope.read(name) for name in op.outputs[:1]]
        self._nested(control, scope, location)
        self.join(here, location)
