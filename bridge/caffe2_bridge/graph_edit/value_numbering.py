"""Which values the operators of a net read and write, and new names for them, bodies included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from google.protobuf import text_format

from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import (
    BRANCHES,
    RECURRENT,
    NetEffects,
    OpEffects,
    all_names,
    analyse,
    derived_from,
    loop_formals,
    step_names,
)

_OUTER_STRINGS: Final = frozenset({"link_external", "alias_src", "alias_dst", "recurrent_states"})
_GRADIENT: Final = "RecurrentNetworkGradient"


def illegal(reason: str, location: Location, hint: str = "") -> ConversionError:
    """The error of an edit that a net does not allow."""
    return ConversionError([Diagnostic("illegal-graph-edit", reason, location, hint=hint)])


def place_of(net: str, proto: OperatorDef, index: int) -> Location:
    """The place of an operator of a net that is called so."""
    return Location(net, index, proto.type, proto.name)


def with_ops(net: NetDef, ops: Iterable[OperatorDef]) -> NetDef:
    """A new net: as ``net``, with these operators."""
    result = NetDef()
    for field, value in net.ListFields():
        if field.name == "op":
            continue
        if isinstance(value, str | int):
            setattr(result, field.name, value)
        else:
            getattr(result, field.name).MergeFrom(value)
    result.op.extend(ops)
    return result


def effects_of(net: NetDef, name: str) -> NetEffects:
    """What a net does to its blobs. Raises ConversionError where a body cannot be read."""
    findings: list[Diagnostic] = []
    effects = analyse(net, Location(name), findings)
    if findings:
        raise ConversionError(findings)
    return effects


def touched(op: OpEffects) -> dict[str, None]:
    """Blobs of the workspace that an operator with bodies reads or changes, declared or not."""
    groups = (op.reads, op.writes, op.updates, op.merges, op.mutates, op.passes, op.soft, op.through)
    return dict.fromkeys(name for names in groups for name in names)


class Slots:
    """The values of a net: a number for each, which every operand that means this value has.

    Values that must have one name are ``tied``: an update in place, and what a body both finds and leaves. Operators in
    ``identities`` hand on their first input as their first output. Attributes: ``reads`` and ``writes`` by operator
    and operand, ``before`` by operator and touched blob for those with bodies; ``entry`` and ``last`` by blob name.
    """

    def __init__(self, effects: NetEffects, identities: frozenset[int] = frozenset()) -> None:
        self.effects = effects
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.before: dict[int, dict[str, int]] = {}
        self.entry: dict[str, int] = {}
        self._parents: list[int] = []
        self.last: dict[str, int] = {}
        for name in effects.net.external_input:
            self._find(name)
        for index, (proto, op) in enumerate(zip(effects.net.op, effects.ops, strict=True)):
            self._add(index, proto, op, identity=index in identities)

    def _add(self, index: int, proto: OperatorDef, op: OpEffects, *, identity: bool) -> None:
        self.reads.append([self._find(name) for name in proto.input])
        if identity:
            self.last[proto.output[0]] = self.reads[index][0]
        elif op.bodies:
            self._add_control(index, proto, op)
        else:
            kept = {*op.mutates}
            held = {name: self.last[name] for name in op.updates if name in self.last}
            for name in proto.output:
                if name not in kept:
                    self.last[name] = self._new()
            for name, slot in held.items():
                self._tie(slot, self.last[name])
        self.writes.append([self._find(name) for name in proto.output])

    def _add_control(self, index: int, proto: OperatorDef, op: OpEffects) -> None:
        seen = touched(op)
        written = dict.fromkeys((*proto.output, *op.writes, *op.updates, *op.merges))
        self.before[index] = {name: self._find(name) for name in seen if name in self.last or name not in written}
        for name in written:
            if name in op.mutates:
                continue
            prior = self.last.get(name)
            self.last[name] = self._new()
            purely = name in op.writes and not any(name in names for names in (op.reads, op.soft, op.through))
            if prior is not None and not purely:
                self._tie(prior, self.last[name])

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _find(self, name: str) -> int:
        if name not in self.last:
            self.last[name] = self.entry[name] = self._new()
        return self.last[name]

    def root(self, slot: int) -> int:
        """The number that stands for all values tied to this one."""
        while self._parents[slot] != slot:
            self._parents[slot] = self._parents[self._parents[slot]]
            slot = self._parents[slot]
        return slot

    def _tie(self, one: int, other: int) -> None:
        one, other = sorted((self.root(one), self.root(other)))
        self._parents[other] = one

    def same_dataflow(self, other: Slots) -> int | None:
        """None where every operand means the same value in the other net, else the index of the first that does not.

        An index behind the last operator stands for the external outputs.
        """
        for index, (reads, writes) in enumerate(zip(self.reads, self.writes, strict=True)):
            mine, theirs = self.before.get(index, {}), other.before.get(index, {})
            if (
                reads != other.reads[index]
                or writes != other.writes[index]
                or list(mine.values()) != list(theirs.values())
            ):
                return index
        return None if self._ends() == other._ends() else len(self.reads)

    def _ends(self) -> tuple[list[int], list[int | None]]:
        return list(self.entry.values()), [self.last.get(name) for name in self.effects.net.external_output]


def rename_slots(slots: Slots, names: Mapping[int, str], net_name: str, identities: frozenset[int]) -> NetDef:
    """The net with other names for some values, given by ``root``. Raises ConversionError where a name is taken."""
    old = slots.effects.net
    net = NetDef()
    net.CopyFrom(old)

    def renamed(pairs: Iterator[tuple[str, int | None]]) -> list[str]:
        return [name if slot is None else names.get(slots.root(slot), name) for name, slot in pairs]

    for index, proto in enumerate(net.op):
        for field, found in ((proto.input, slots.reads[index]), (proto.output, slots.writes[index])):
            new = renamed(zip(field, found, strict=True))
            if new != list(field):
                field[:] = new
        before = slots.before.get(index)
        if before is not None:
            slot_of = {**dict(zip(old.op[index].output, slots.writes[index], strict=True)), **before}
            mapping = {
                name: names[slots.root(slot)]
                for name, slot in slot_of.items()
                if names.get(slots.root(slot), name) != name
            }
            if mapping:
                _rename_bodies(proto, slots.effects.ops[index], mapping, place_of(net_name, proto, index))
    net.external_input[:] = dict.fromkeys(renamed((name, slots.entry.get(name)) for name in old.external_input))
    net.external_output[:] = renamed((name, slots.last.get(name)) for name in old.external_output)
    differs = slots.same_dataflow(Slots(effects_of(net, net_name), identities))
    if differs is not None:
        place = place_of(net_name, net.op[differs], differs) if differs < len(net.op) else Location(net_name)
        taken = ", ".join(map(repr, dict.fromkeys(names.values())))
        raise illegal(f"with the new name {taken} this would read, or give, another value", place, "use another name")
    return net


def _rename_bodies(proto: OperatorDef, op: OpEffects, names: Mapping[str, str], place: Location) -> None:
    if proto.type == "Do":  # binds by operand; the names inside are its own
        return
    inside = {name for body in op.bodies.values() for name in all_names(body.net)}
    taken = next((new for new in names.values() if new in inside), None)
    if taken is not None:
        raise illegal(f"a body of this operator already uses the name {taken!r}", place, "use another name")
    if proto.type == _GRADIENT:
        derived = set(derived_from(OpView(proto, 0)))
        kept = next((name for name in names if name in derived or name.endswith("_grad")), None)
        if kept is not None:
            raise illegal(f"this operator derives names of gradients from {kept!r}", place)
    rename_in_bodies(proto, names)


def rename_in_bodies(proto: OperatorDef, names: Mapping[str, str]) -> None:
    """Rename blobs of the workspace of an operator in its bodies and in the arguments that name blobs, in place.

    Where a body has a name of its own, that stays.
    """
    if proto.type in RECURRENT:
        own = step_names(OpView(proto, 0))
        free = {name: new for name, new in names.items() if name not in own}
        for arg in proto.arg:
            if arg.name in _OUTER_STRINGS:
                arg.strings[:] = [names.get(name.decode(), name.decode()).encode() for name in arg.strings]
            elif arg.name.endswith("step_net"):
                edit_body(proto, arg.name, lambda net: _rename_net(net, free))
    elif proto.type == "ONNXWhile":
        body = OpView(proto, 0).args.net("body")
        formals = set() if body is None else set(loop_formals(OpView(proto, 0), body))
        free = {name: new for name, new in names.items() if name not in formals}
        edit_body(proto, "body", lambda net: _rename_net(net, free))
    elif proto.type in BRANCHES or proto.type == "While":
        for arg in proto.arg:
            if arg.HasField("n"):
                _rename_net(arg.n, names)


def edit_body(proto: OperatorDef, name: str, edit: Callable[[NetDef], None]) -> None:
    """Change a body in place, also one that is written as text."""
    for arg in proto.arg:
        if arg.name != name:
            continue
        if arg.HasField("s"):
            net = OpView(proto, 0).args.net(name) or NetDef()
            before = net.SerializeToString(deterministic=True)
            edit(net)
            if net.SerializeToString(deterministic=True) != before:
                arg.s = text_format.MessageToString(net).encode()
        else:
            edit(arg.n)


def _rename_net(net: NetDef, names: Mapping[str, str]) -> None:
    for field in (net.external_input, net.external_output):
        field[:] = [names.get(name, name) for name in field]
    for proto in net.op:
        for field in (proto.input, proto.output):
            field[:] = [names.get(name, name) for name in field]
        rename_in_bodies(proto, names)
