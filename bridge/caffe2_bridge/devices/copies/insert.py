"""Insert copies between devices where an operand is on another device than its operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_bridge.control import (
    Body,
    BodyScope,
    ControlOperator,
    Formal,
    Place,
    Role,
    Runs,
    all_names,
    parsed_bodies,
)
from caffe2_bridge.devices.copies.copy_operators import Copies
from caffe2_bridge.devices.copies.residence import Cell, Residence
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.infer import explicit_device
from caffe2_bridge.devices.operand_sides import Side, operand_sides
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import ArgumentError, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, analyse

_PREDICT: Final = Location("predict")


def insert_copies(
    net: Message | bytes, input_devices: Mapping[str, Any] | None = None
) -> tuple[NetDef, dict[str, str]]:
    """Insert copies so that every operator finds its operands on its device.

    Operators, in bodies too, run on the device of their device option, else of the net's, else on the host. Operands
    that are always on the host are copied there. A value is copied to a device once, to the name ``<blob>_cpu`` or
    ``<blob>_gpu_<index>`` (with a number where that is taken), and again once the blob was overwritten. All blobs keep
    their names, on whichever device they are written. What a loop only reads is copied in front of it; what branches or
    iterations leave on different devices is brought to where it was before.

    Args:
        net: the net.
        input_devices: where its external inputs are; those left out are on the device of the net's device option.

    Returns:
        A new net, and the device of each blob at its end as ``cpu`` or ``cuda:1``. Raises ConversionError where an
        argument or a body cannot be read.
    """
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    default = as_device(result.device_option) if result.HasField("device_option") else HOST
    given = {name: as_device(what) for name, what in (input_devices or {}).items()}
    findings: list[Diagnostic] = []
    with parsed_bodies(result):
        effects = analyse(result, _PREDICT, findings)
        if findings:
            raise ConversionError(findings)
        root = Residence(lambda name: Cell(name, given.get(name, default)))
        for name in (*result.external_input, *given, *effects.exposed):
            root.find(name)
        _Inserter(set(all_names(result)), result.device_option).net(effects, root)
    return result, {name: str(cell.device) for name, cell in root.cells.items() if cell.device is not None}


class _Inserter:
    """Walks a net and its bodies, and emits copies where operands are on other devices."""

    def __init__(self, used: set[str], net_option: DeviceOption) -> None:
        self._default = as_device(net_option)
        self._copies = Copies(used, self._default)

    def net(self, effects: NetEffects, here: Residence) -> None:
        """Rewrite the operators of a net, in place."""
        before = len(here.ops)
        for index, (proto, does) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            try:
                if does.control is not None:
                    self._control(proto, does.control, does, here)
                else:
                    self._plain(proto, does, here)
            except ArgumentError as error:
                location = Location(effects.net.name or _PREDICT.net, index, proto.type, proto.name)
                raise ConversionError([Diagnostic("invalid-argument", str(error), location)]) from None
            here.ops.append(proto)
        set_operators(effects.net, here.ops[before:])
        del here.ops[before:]

    def _device(self, proto: OperatorDef) -> Device:
        return explicit_device(proto) or self._default

    def _plain(self, proto: OperatorDef, does: OpEffects, here: Residence) -> None:
        device = self._device(proto)
        sides = operand_sides(proto)
        self._inputs(proto, sides[0], device, here, held=does.updates)
        self._outputs(proto, sides[1], device, here)

    def _inputs(
        self, proto: OperatorDef, sides: Iterable[Side], device: Device, here: Residence, held: Iterable[str] = ()
    ) -> dict[str, str]:
        """Copy inputs to where the operator needs them; return the new names. Those in ``held`` keep their names."""
        renamed: dict[str, str] = {}
        new = list(proto.input)
        for position, (name, side) in enumerate(zip(proto.input, sides, strict=True)):
            to = {Side.SAME: device, Side.HOST: HOST}.get(side)
            if to is None or not name:
                continue
            cell = here.find(name)
            if cell.device is None or cell.device == to:
                cell.device = to
            elif proto.type == "Copy" and cell.device.is_gpu and to.is_gpu:
                pass  # it copies from one GPU to another
            elif name in held:
                self._copies.move(name, to, here)
            else:
                new[position] = self._copies.bring(cell, to, here)
                if side is Side.SAME:
                    renamed[name] = new[position]
        if new != list(proto.input):
            proto.input[:] = new
        return renamed

    def _outputs(self, proto: OperatorDef, sides: Iterable[Side], device: Device, here: Residence) -> None:
        where = {Side.SAME: device, Side.HOST: HOST, Side.GPU: device if device.is_gpu else Device("cuda")}
        for name, side in zip(proto.output, sides, strict=True):
            here.cells[name] = Cell(name, where.get(side))

    def _control(self, proto: OperatorDef, control: ControlOperator, does: OpEffects, here: Residence) -> None:
        device = self._device(proto) if control.computes else HOST
        sides = operand_sides(proto)
        renamed = {name: self._linked(name, device, here) for name in control.viewed if self._is_given(name, control)}
        renamed.update(self._inputs(proto, sides[0], device, here, held=does.updates))
        if any(old != new for old, new in renamed.items()):
            control.rename_arguments(lambda name: renamed.get(name, name), lambda name: name)
        match control.scope:
            case BodyScope.SHARED if control.runs is Runs.BRANCH:
                self._branches(does, here)
            case BodyScope.SHARED:
                self._repeated(control, does, here)
            case BodyScope.SEALED:
                self._sealed(control, does, here)
            case BodyScope.NESTED:
                for name in control.creates:
                    here.cells[name] = Cell(name, device)
                results = self._nested(control, does, device, here)
                self._outputs(proto, sides[1], device, here)
                here.cells.update(results)
        for name in proto.output:
            if here.get(name) is None:
                here.cells[name] = Cell(name, None)

    @staticmethod
    def _is_given(name: str, control: ControlOperator) -> bool:
        """Whether the operator finds a blob that its bodies have views of; a gradient operator's are all its own."""
        past = any(body.role is Role.PAST for body in control.bodies.values())
        return not past and name not in control.writes

    def _linked(self, name: str, device: Device, here: Residence) -> str:
        cell = here.find(name)
        if cell.device is None or cell.device == device:
            return name
        return self._copies.bring(cell, device, here)

    def _branches(self, does: OpEffects, here: Residence) -> None:
        parts = [(body, here.inner()) for body in does.bodies.values()]
        for body, inner in parts:
            self.net(body, inner)
        home: dict[str, Device | None] = {}
        for name in (*does.writes, *does.merges):
            prior = here.get(name) if name in does.merges else None
            ends = [inner.cells[name].device for _, inner in parts if name in inner.cells]
            home[name] = prior.device if prior is not None else next((end for end in ends if end is not None), None)
        for body, inner in parts:
            self._settle(body, inner, home)
        for name, device in home.items():
            here.cells[name] = Cell(name, device)

    def _settle(self, body: NetEffects, inner: Residence, home: Mapping[str, Device | None]) -> None:
        """Copy blobs that a body wrote, at its end, to the devices where the others have them."""
        for name, device in home.items():
            if device is not None and name in inner.cells:
                self._copies.move(name, device, inner)
        body.net.op.extend(inner.ops)
        inner.ops.clear()

    def _repeated(self, control: ControlOperator, does: OpEffects, here: Residence) -> None:
        """Have iterations find what they change where it was before the first, the condition on the host."""
        inner = here.inner(loop=True)
        for name in does.updates:
            prior = here.get(name)
            inner.cells[name] = Cell(name, prior.device if prior else HOST if name == control.condition else None)
        entry = {name: inner.cells[name] for name in does.updates}
        for body in does.bodies.values():
            self.net(body, inner)
            home = {name: HOST if name == control.condition else entry[name].device for name in does.updates}
            self._settle(body, inner, home)
        for name in does.updates:
            here.cells[name] = Cell(name, entry[name].device or inner.cells[name].device)
        self._declare(control.op.proto, inner)

    def _declare(self, proto: OperatorDef, inner: Residence) -> None:
        """Declare copies that were hoisted out of a loop as its inputs."""
        proto.input.extend(name for name in dict.fromkeys(inner.hoisted) if name not in set(proto.input))

    def _sealed(self, control: ControlOperator, does: OpEffects, here: Residence) -> None:
        for argument, effects in does.bodies.items():
            inner = Residence(lambda name: Cell(name, None))
            bound = [(f.name, f.source) for f in control.bodies[argument].formals if f.source is not None]
            for name, outer in bound:
                known = here.get(outer)
                if known is not None:
                    inner.cells[name] = Cell(name, known.device)
            self.net(effects, inner)
            for name, outer in bound:
                if name in effects.may:
                    here.cells[outer] = Cell(outer, inner.cells[name].device)

    def _nested(self, control: ControlOperator, does: OpEffects, device: Device, here: Residence) -> dict[str, Cell]:
        """Give bodies their formals, bring results to where those are; the outer blobs that results become."""
        past = [body for body in control.bodies.values() if body.role is Role.PAST]
        inner = here.inner(loop=not past)
        if past:
            self._learn(control, past, device, inner)
            inner = inner.inner()
        cells = {}
        for body in control.bodies.values():
            if body.role is Role.RUN:
                places = self._formal_devices(body, device, here)
                self._body(body, does.bodies[body.argument], places, inner)
                for result in body.results:
                    if result.output is not None:
                        cells[result.output] = Cell(result.output, _home(result.formal, places))
        if not past:
            self._declare(control.op.proto, inner)
        return cells

    def _formal_devices(self, body: Body, device: Device, here: Residence) -> dict[str, Device | None]:
        fixed: dict[Place, Device | None] = {Place.HOST: HOST, Place.OPERATOR: device}
        return {
            formal.name: here.find(formal.source).device
            if formal.place is Place.SOURCE and formal.source
            else fixed.get(formal.place)
            for formal in body.formals
        }

    def _body(self, body: Body, effects: NetEffects, places: Mapping[str, Device | None], inner: Residence) -> None:
        for name, place in places.items():
            inner.cells[name] = Cell(name, place)
        self.net(effects, inner)
        home = {formal.name: places[formal.name] for formal in body.formals if formal.is_view}
        home.update({result.name: _home(result.formal, places) for result in body.results})
        self._settle(effects, inner, home)

    def _learn(self, control: ControlOperator, past: Iterable[Body], device: Device, inner: Residence) -> None:
        """Learn where the forward operator's body left its blobs: a gradient operator carries that net along."""
        scratch, used = NetDef(op=[control.op.proto]), self._copies.names()
        effects = analyse(scratch, _PREDICT, []).ops[0]
        for body in past:
            places = self._formal_devices(body, device, inner)
            self._body(body, effects.bodies[body.argument], places, inner)
        inner.copies.clear()
        self._copies.forget_all_but(used)


def _home(formal: Formal | None, places: Mapping[str, Device | None]) -> Device | None:
    """Return where a result is: with the formal that it is the next value of, or on the host."""
    return HOST if formal is None else places[formal.name]
