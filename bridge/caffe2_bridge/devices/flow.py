"""The values of a net and of all its bodies in one graph: which operators they meet, and which must be in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from caffe2_bridge.devices.operand_sides import CONTROL, GRADIENT, SPECIAL, Side, Sides, all_same, operand_sides
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import BRANCHES, RECURRENT, do_bindings, loop_formals
from caffe2_bridge.ssa.versions import VersionedBlob


@dataclass(slots=True, eq=False)
class Step:
    """An operator; or, without ``proto``, that all its inputs are in one place, or on the host, for the sake of one.

    Operands are numbers of values.
    """

    net: Location
    index: int
    proto: OperatorDef | None
    inputs: list[int]
    outputs: list[int]
    sides: Sides

    @property
    def plain(self) -> bool:
        """Whether all its operands are where it is."""
        return Side.HOST not in self.sides[0] if self.proto is None else self.proto.type not in SPECIAL

    @property
    def location(self) -> Location:
        """Its place in the model."""
        if self.proto is None:
            return self.net
        return Location(self.net.net, self.index, self.proto.type, self.proto.name, self.net.path)


@dataclass(slots=True, eq=False)
class Flow:
    """A net's operators and joins with those of its bodies, in the order in which they first run.

    ``names`` holds the blob of each value, ``versioned`` the values of the net itself as ``get_ssa`` counts them,
    ``last`` those at its end.
    """

    steps: list[Step] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    versioned: dict[VersionedBlob, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def value(self, name: str) -> int:
        """A new value of a blob."""
        self.names.append(name)
        return len(self.names) - 1


class _Scope:
    """The values that names have in a workspace. A read that nothing wrote is a value at the entry of ``root``."""

    __slots__ = ("flow", "found", "parent", "root", "written")

    def __init__(self, flow: Flow, parent: _Scope | None = None) -> None:
        self.flow = flow
        self.parent = parent
        self.root: _Scope = self if parent is None else parent.root
        self.found: dict[str, int] = {}  # at entry: bound by the operator, or read and nowhere written
        self.written: dict[str, int] = {}

    def get(self, name: str) -> int | None:
        scope: _Scope | None = self
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
    """The graph of a net. Raises ConversionError where an argument or a body cannot be read."""
    flow = Flow()
    scope = _Scope(flow)
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
        self, net: NetDef, scope: _Scope, place: Location, versioned: dict[VersionedBlob, int] | None = None
    ) -> None:
        """Add the operators of a net; with ``versioned`` note the values under their versions."""
        counts: dict[str, int] = {}
        for index, proto in enumerate(net.op):
            try:
                self._operator(index, proto, scope, place)
            except ArgumentError as error:
                where = Location(place.net, index, proto.type, proto.name, place.path)
                raise ConversionError([Diagnostic("invalid-argument", str(error), where)]) from None
            if versioned is not None:
                for name in dict.fromkeys(proto.output):
                    counts[name] = counts.get(name, 0) + 1
                    versioned[name, counts[name]] = scope.written[name]

    def _operator(self, index: int, proto: OperatorDef, scope: _Scope, place: Location) -> None:
        inputs = [scope.read(name) for name in proto.input]
        step = Step(place, index, proto, inputs, [], operand_sides(proto))
        self.flow.steps.append(step)
        if proto.type in CONTROL or proto.type in RECURRENT:
            self._control(step, OpView(proto, index), scope)
        else:
            made = [scope.write(name) for name in proto.output]
            step.outputs = made if len(made) == 1 else [scope.written[name] for name in proto.output]

    def join(self, values: Iterable[int | None], place: Location) -> None:
        """Have all these values in one place."""
        together = list(dict.fromkeys(value for value in values if value is not None))
        if len(together) > 1:
            self.flow.steps.append(Step(place, 0, None, together, [], all_same(len(together), 0)))

    def hold(self, values: Iterable[int], place: Location) -> None:
        """Have these values on the host."""
        for value in values:
            self.flow.steps.append(Step(place, 0, None, [value], [], ((Side.HOST,), ())))

    def _control(self, step: Step, op: OpView, scope: _Scope) -> None:
        place = step.location
        if op.type in BRANCHES:
            self._branches(op, scope, place)
        elif op.type == "While":
            self._while(op, scope, place)
        elif op.type == "Do":
            self._do(op, scope, place)
        elif op.type == "ONNXWhile":
            self._onnx_while(step, op, scope, place)
        else:
            self._recurrent(step, op, scope, place)
        step.outputs = [scope.read(name) for name in op.outputs]

    def _body(self, op: OpView, name: str, scope: _Scope, place: Location) -> bool:
        net = op.args.net(name, None)
        if net is not None:
            self.net(net, scope, place.enter(name))
        return net is not None

    def _leave(self, name: str, values: Iterable[int | None], scope: _Scope, place: Location) -> None:
        """A blob that an operator with bodies leaves: where the values are that it may have."""
        values = list(values)
        self.join([*values, scope.write(name)], place)

    def _passes(self, op: OpView, written: Mapping[str, object], scope: _Scope, place: Location) -> None:
        for name in dict.fromkeys(op.outputs):
            if name not in written:
                self._leave(name, [scope.get(name)], scope, place)

    def _branches(self, op: OpView, scope: _Scope, place: Location) -> None:
        parts = []
        for name in ("then_net", "else_net"):
            inner = _Scope(self.flow, scope)
            self._body(op, name, inner, place)
            parts.append(inner.written)
        names = dict.fromkeys(name for part in parts for name in part)
        for name in names:
            prior = scope.get(name)
            self._leave(name, [part.get(name, prior) for part in parts], scope, place)
        self._passes(op, names, scope, place)

    def _while(self, op: OpView, scope: _Scope, place: Location) -> None:
        inner = _Scope(self.flow, scope)
        for name in ("cond_net", "loop_net"):
            self._body(op, name, inner, place)
        for name, value in inner.written.items():
            self._leave(name, [scope.get(name), value], scope, place)
        self._passes(op, inner.written, scope, place)
        self.hold([scope.read(name) for name in op.inputs[:1]], place)

    def _do(self, op: OpView, scope: _Scope, place: Location) -> None:
        inner = _Scope(self.flow)
        bindings = do_bindings(op)
        for name, outer in bindings.items():
            known = scope.get(outer)
            if known is not None:
                inner.found[name] = known
        self._body(op, "net", inner, place)
        for name, value in inner.written.items():  # with reuse_workspace, locals live on in the next run
            if name not in bindings and name in inner.found:
                self.join([inner.found[name], value], place)
        left = {outer: inner.written[name] for name, outer in bindings.items() if name in inner.written}
        for outer, value in left.items():
            self._leave(outer, [value], scope, place)
        self._passes(op, left, scope, place)

    def _onnx_while(self, step: Step, op: OpView, scope: _Scope, place: Location) -> None:
        body = op.args.net("body") or NetDef()
        inner = _Scope(self.flow, scope)
        formals = loop_formals(op, body)
        for name in formals:
            inner.found[name] = self.flow.value(name)
        self.net(body, inner, place.enter("body"))
        results = [inner.read(name) for name in body.external_output]
        self.hold([*(inner.found[name] for name in formals[:2]), *results[:1]], place)
        carried = formals[2:]
        for position, name in enumerate(op.outputs):
            values: list[int | None] = [*results[1 + position : 2 + position]]
            if position < len(carried):
                values += [*step.inputs[2 + position : 3 + position], inner.found[carried[position]]]
            self._leave(name, values, scope, place)

    def _recurrent(self, step: Step, op: OpView, scope: _Scope, place: Location) -> None:
        args = op.args
        for name in dict.fromkeys(op.outputs):
            scope.write(name)
        gradient = op.type == GRADIENT
        states = args.texts("recurrent_states", ())
        own = [] if gradient else [*states, *args.texts("alias_dst", ())]
        here = [value for value, side in zip(step.inputs, step.sides[0], strict=True) if side is Side.SAME]
        declared = set(op.outputs)
        here += [scope.read(name) if name in declared else scope.write(name) for name in dict.fromkeys(own)]
        here += [scope.read(name) for name in op.outputs[:1]]
        inner = _Scope(self.flow, scope)
        timestep = args.text("timestep", "timestep")
        inner.found[timestep] = self.flow.value(timestep)
        self.hold([inner.found[timestep]], place)
        self._step_net(op, "step_net", "link", inner, place)
        if gradient:
            outer = _Scope(self.flow, inner)
            self._step_net(op, "backward_step_net", "backward_link", outer, place)
            here += [
                scope.read(name) for name in args.texts("backward_link_external", ()) if scope.get(name) is not None
            ]
        self.join(here, place)

    def _step_net(self, op: OpView, body: str, link: str, inner: _Scope, place: Location) -> None:
        links = zip(op.args.texts(f"{link}_internal", ()), op.args.texts(f"{link}_external", ()), strict=True)
        views = {name: (inner.parent or inner).read(external) for name, external in links}
        inner.found.update(views)
        self._body(op, body, inner, place)
        for name, external in views.items():
            if name in inner.written:
                self.join([external, inner.written[name]], place)
