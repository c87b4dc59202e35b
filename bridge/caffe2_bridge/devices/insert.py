"""Copies between devices where an operator's operand is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.infer import StepNets, explicit_device
from caffe2_bridge.devices.operand_sides import CONTROL, GRADIENT, Side, operand_sides
from caffe2_bridge.devices.residence import Cell, Residence
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa.effects import (
    BRANCHES,
    RECURRENT,
    NetEffects,
    OpEffects,
    all_names,
    analyse,
    do_bindings,
    loop_formals,
)

_PREDICT: Final = Location("predict")


def insert_copies(
    net: Message | bytes, input_devices: Mapping[str, Any] | None = None
) -> tuple[NetDef, dict[str, str]]:
    """A net in which every operator finds its operands where it runs.

    Operators run where their device options say, else where the net's says, else on the host; so do those of bodies.
    What lives on the host whatever the operator's device is brought there. A value is copied to a device once, to the
    name ``<blob>_cpu`` or ``<blob>_gpu_<index>`` (with a number where that is taken), and again once the blob was
    overwritten. All blobs keep their names, on whichever device they are written. What a loop only reads is copied in
    front of it; what branches or iterations leave on different devices is brought to where it was before.

    Args:
        net: the net.
        input_devices: where its external inputs are; those left out are where the net's device option says.

    Returns:
        A new net, and the device of each blob at its end as ``cpu`` or ``cuda:1``. Raises ConversionError where an
        argument or a body cannot be read.
    """
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    default = as_device(result.device_option) if result.HasField("device_option") else HOST
    given = {name: as_device(what) for name, what in (input_devices or {}).items()}
    findings: list[Diagnostic] = []
    with StepNets(result):
        effects = analyse(result, _PREDICT, findings)
        if findings:
            raise ConversionError(findings)
        root = Residence(lambda name: Cell(name, given.get(name, default)))
        for name in (*result.external_input, *given, *effects.exposed):
            root.find(name)
        _Inserter(set(all_names(result)), result.device_option).net(effects, root)
    return result, {name: str(cell.device) for name, cell in root.cells.items() if cell.device is not None}


def copy_operator(source: str, target: str, origin: Device, to: Device, inherited: Device = HOST) -> OperatorDef:
    """The operator that brings a blob from one device to another, or copies it where it is.

    ``inherited`` is where operators run that say nothing.
    """
    kind, at = "Copy", to
    if origin.is_gpu and not to.is_gpu:
        kind, at = "CopyGPUToCPU", origin
    elif to.is_gpu and not origin.is_gpu:
        kind = "CopyCPUToGPU"
    op = OperatorDef(type=kind, input=[source], output=[target])
    if at.is_gpu or inherited.is_gpu:
        op.device_option.CopyFrom(at.option())
    return op


class _Inserter:
    def __init__(self, used: set[str], net_option: DeviceOption) -> None:
        self._used = used
        self._default = as_device(net_option)

    def net(self, effects: NetEffects, here: Residence) -> None:
        """Rewrite the operators of a net, in place."""
        before = len(here.ops)
        for index, (proto, does) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            try:
                if proto.type in CONTROL or proto.type in RECURRENT:
                    self._control(proto, does, here)
                else:
                    self._plain(proto, does, here)
            except ArgumentError as error:
                place = Location(effects.net.name or _PREDICT.net, index, proto.type, proto.name)
                raise ConversionError([Diagnostic("invalid-argument", str(error), place)]) from None
            here.ops.append(proto)
        new = NetDef(op=here.ops[before:])
        del here.ops[before:]
        effects.net.ClearField("op")
        effects.net.op.MergeFrom(new.op)

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
        """Bring the inputs; the new names of those that have one. Those that are updated in place keep theirs."""
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
                self._move(name, to, here)
            else:
                new[position] = self._bring(cell, to, here)
                if side is Side.SAME:
                    renamed[name] = new[position]
        if new != list(proto.input):
            proto.input[:] = new
        return renamed

    def _outputs(self, proto: OperatorDef, sides: Iterable[Side], device: Device, here: Residence) -> None:
        where = {Side.SAME: device, Side.HOST: HOST, Side.GPU: device if device.is_gpu else Device("cuda")}
        for name, side in zip(proto.output, sides, strict=True):
            here.cells[name] = Cell(name, where.get(side))

    def _bring(self, cell: Cell, to: Device, here: Residence) -> str:
        """The name under which a value is on another device, copied there if need be."""
        known = here.copy_of(cell, to)
        if known is not None:
            return known
        assert cell.device is not None
        name = self._new_name(cell.name, to)
        scope = here.home_of(cell)
        scope.ops.append(copy_operator(cell.name, name, cell.device, to, self._default))
        scope.copies[cell, to] = name
        return here.copy_of(cell, to) or name

    def _new_name(self, name: str, to: Device) -> str:
        wanted = base = f"{name}_gpu_{to.index}" if to.is_gpu else f"{name}_cpu"
        number = 0
        while wanted in self._used:
            number += 1
            wanted = f"{base}_{number}"
        self._used.add(wanted)
        return wanted

    def _move(self, name: str, to: Device, here: Residence) -> None:
        """Bring a value elsewhere under the same name."""
        cell = here.find(name)
        if cell.device is None or cell.device == to:
            return
        copied = here.copy_of(cell, to)
        if copied is None:
            copied = self._new_name(name, to)
            here.ops.append(copy_operator(name, copied, cell.device, to, self._default))
        here.ops.append(copy_operator(copied, name, to, to, self._default))
        here.cells[name] = Cell(name, to)

    def _control(self, proto: OperatorDef, does: OpEffects, here: Residence) -> None:
        op = OpView(proto, 0)
        if op.type in BRANCHES:
            self._inputs(proto, operand_sides(proto)[0], HOST, here)
            self._branches(does, here)
        elif op.type == "While":
            for name in op.inputs[:1]:
                if name in does.updates:
                    self._move(name, HOST, here)
                else:
                    self._inputs(proto, operand_sides(proto)[0], HOST, here)
            self._while(op, does, here)
        elif op.type == "Do":
            self._do(op, does, here)
        elif op.type == "ONNXWhile":
            self._inputs(proto, operand_sides(proto)[0], HOST, here)
            self._onnx_while(op, does, here)
        else:
            self._recurrent(op, does, here)
        for name in proto.output:
            if here.get(name) is None:
                here.cells[name] = Cell(name, None)

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
        """At the end of a body, bring what it wrote to where the others have it."""
        for name, device in home.items():
            if device is not None and name in inner.cells:
                self._move(name, device, inner)
        body.net.op.extend(inner.ops)
        inner.ops.clear()

    def _while(self, op: OpView, does: OpEffects, here: Residence) -> None:
        inner = here.inner(loop=True)
        home: dict[str, Device | None] = {}
        for name in does.updates:
            prior = here.get(name)
            inner.cells[name] = Cell(name, prior.device if prior else HOST if name in op.inputs[:1] else None)
        entry = {name: inner.cells[name] for name in does.updates}
        for name in ("cond_net", "loop_net"):
            if name in does.bodies:
                self.net(does.bodies[name], inner)
                home = {name: entry[name].device for name in does.updates}
                if op.inputs and op.inputs[0] in home:
                    home[op.inputs[0]] = HOST
                self._settle(does.bodies[name], inner, home)
        for name in does.updates:
            here.cells[name] = Cell(name, entry[name].device or inner.cells[name].device)
        self._declare(op.proto, inner)

    def _declare(self, proto: OperatorDef, inner: Residence) -> None:
        """The copies that were made in front of a loop for its sake are its inputs."""
        proto.input.extend(name for name in dict.fromkeys(inner.hoisted) if name not in set(proto.input))

    def _do(self, op: OpView, does: OpEffects, here: Residence) -> None:
        bindings = do_bindings(op)
        inner = Residence(lambda name: Cell(name, None))
        for name, outer in bindings.items():
            known = here.get(outer)
            if known is not None:
                inner.cells[name] = Cell(name, known.device)
        self.net(does.bodies["net"], inner)
        for name, outer in bindings.items():
            if name in does.bodies["net"].may:
                here.cells[outer] = Cell(outer, inner.cells[name].device)

    def _onnx_while(self, op: OpView, does: OpEffects, here: Residence) -> None:
        body = does.bodies["body"]
        inner = here.inner(loop=True)
        formals = loop_formals(op, body.net)
        carried = {name: here.find(outer).device for name, outer in zip(formals[2:], op.inputs[2:], strict=False)}
        for name in formals:
            inner.cells[name] = Cell(name, carried.get(name, HOST))
        self.net(body, inner)
        results = list(body.net.external_output)
        home: dict[str, Device | None] = dict(zip(results[1:], carried.values(), strict=False))
        self._settle(body, inner, {**dict.fromkeys(results, HOST), **home})
        for position, name in enumerate(op.outputs):
            here.cells[name] = Cell(name, [*carried.values(), *([HOST] * len(op.outputs))][position])
        self._declare(op.proto, inner)

    def _recurrent(self, op: OpView, does: OpEffects, here: Residence) -> None:
        proto, device = op.proto, self._device(op.proto)
        sides = operand_sides(proto)
        outer = {name: self._linked(name, device, here) for name in _linked_names(op, does)}
        renamed = {**self._inputs(proto, sides[0], device, here), **{a: b for a, b in outer.items() if a != b}}
        _rename_strings(proto, renamed)
        states = {*op.args.texts("recurrent_states", ()), *op.args.texts("alias_dst", ())}
        gradient = op.type == GRADIENT
        if not gradient:
            for name in states:
                here.cells[name] = Cell(name, device)
        inner = here.inner(loop=not gradient)
        if gradient:
            self._learn_forward_step(proto, device, inner)
            self._step(OpView(proto, 0), "backward_step_net", "backward_link", device, does, inner.inner())
        else:
            self._step(OpView(proto, 0), "step_net", "link", device, does, inner)
            self._declare(proto, inner)
        self._outputs(proto, sides[1], device, here)

    def _learn_forward_step(self, proto: OperatorDef, device: Device, inner: Residence) -> None:
        """Where the forward operator's step net left its blobs: a gradient operator carries that net along."""
        scratch, used = NetDef(op=[proto]), set(self._used)
        effects = analyse(scratch, _PREDICT, []).ops[0]
        self._step(OpView(scratch.op[0], 0), "step_net", "link", device, effects, inner)
        inner.copies.clear()
        self._used = used

    def _linked(self, name: str, device: Device, here: Residence) -> str:
        cell = here.find(name)
        if cell.device is None or cell.device == device:
            return name
        return self._bring(cell, device, here)

    def _step(self, op: OpView, body: str, link: str, device: Device, does: OpEffects, inner: Residence) -> None:
        if body not in does.bodies:
            return
        links = op.args.texts(f"{link}_internal", ())
        for name in links:
            inner.cells[name] = Cell(name, device)
        timestep = op.args.text("timestep", "timestep")
        inner.cells[timestep] = Cell(timestep, HOST)
        self.net(does.bodies[body], inner)
        self._settle(does.bodies[body], inner, dict.fromkeys(links, device))


def _linked_names(op: OpView, does: OpEffects) -> list[str]:
    """Outer blobs of whose rows the step net has views, and that the operator does not make.

    A gradient operator works on what its forward operator left, on the same device.
    """
    if op.type == GRADIENT:
        return []
    own = {*op.args.texts("recurrent_states", ()), *does.writes}
    return [name for name in dict.fromkeys(op.args.texts("link_external", ())) if name not in own]


def _rename_strings(proto: OperatorDef, names: Mapping[str, str]) -> None:
    for arg in proto.arg:
        if names and arg.name in {"link_external", "alias_src"}:
            arg.strings[:] = [names.get(name.decode(), name.decode()).encode() for name in arg.strings]
