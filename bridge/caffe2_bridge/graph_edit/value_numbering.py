"""Number the values that operators of a net and their bodies read and write, and rename them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from caffe2_bridge.control import BodyScope, all_names, rename_control
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, effects_of


def illegal(reason: str, location: Location, hint: str = "") -> ConversionError:
    """Return the error of an edit that a net does not allow."""
    return ConversionError([Diagnostic("illegal-graph-edit", reason, location, hint=hint)])


def location_of(net: str, proto: OperatorDef, index: int) -> Location:
    """Return the location of an operator in the net named ``net``."""
    return Location(net, index, proto.type, proto.name)


def with_ops(net: NetDef, ops: Iterable[OperatorDef]) -> NetDef:
    """Return a new net with these operators, and all other fields of ``net``."""
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


class Slots:
    """Value numbering of a net: a number for each value, which every operand that means this value has.

    Values that must have one name are ``tied``: an update in place, and what a body both finds and leaves. Operators in
    ``identities`` give their first input as their first output.

    Attributes:
        reads: the values of the inputs, by operator and index.
        writes: the values of the outputs, by operator and index.
        found: of operators with bodies the values that they or their bodies find, by operator and blob.
        left: of those operators the values that they leave, by operator and blob, declared or not.
        entry: the values before the net runs, by blob.
        last: the values after it has run, by blob.
    """

    def __init__(self, effects: NetEffects, identities: frozenset[int] = frozenset()) -> None:
        self.effects = effects
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        self.found: dict[int, dict[str, int]] = {}
        self.left: dict[int, dict[str, int]] = {}
        self.entry: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self._parents: list[int] = []
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
        changed = dict.fromkeys(name for name in (*proto.output, *op.changed) if name not in op.mutates)
        there = {*self.last, *op.reads, *op.mutates}
        self.found[index] = {name: self._find(name) for name in op.found if name in there or name not in changed}
        self.left[index] = {name: self._new() for name in changed}
        for name, slot in self.left[index].items():
            prior = self.last.get(name)
            self.last[name] = slot
            if prior is not None and name not in op.overwritten:
                self._tie(prior, slot)

    def _new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def _find(self, name: str) -> int:
        if name not in self.last:
            self.last[name] = self.entry[name] = self._new()
        return self.last[name]

    def root(self, slot: int) -> int:
        """Return the number that represents all values tied to this one."""
        while self._parents[slot] != slot:
            self._parents[slot] = self._parents[self._parents[slot]]
            slot = self._parents[slot]
        return slot

    def _tie(self, one: int, other: int) -> None:
        one, other = sorted((self.root(one), self.root(other)))
        self._parents[other] = one

    def readers(self) -> dict[int, set[int]]:
        """Return the operators that find a value, by value."""
        readers: dict[int, set[int]] = {}
        for index, reads in enumerate(self.reads):
            for slot in (*reads, *self.found.get(index, {}).values()):
                readers.setdefault(slot, set()).add(index)
        return readers

    def same_dataflow(self, other: Slots) -> int | None:
        """Return None where every operand means the same value in the other net, else the first index that differs.

        Values that bodies find and leave without a declaration count too. An index after the last operator means the
        external outputs.
        """
        for index in range(len(self.reads)):
            if self._operands(index) != other._operands(index):
                return index
        return None if self._ends() == other._ends() else len(self.reads)

    def _operands(self, index: int) -> list[list[int]]:
        undeclared = [list(values.get(index, {}).values()) for values in (self.found, self.left)]
        return [self.reads[index], self.writes[index], *undeclared]

    def _ends(self) -> tuple[list[int], list[int | None]]:
        return list(self.entry.values()), [self.last.get(name) for name in self.effects.net.external_output]


def rename_slots(slots: Slots, names: Mapping[int, str], net_name: str, identities: frozenset[int]) -> NetDef:
    """Return the net with other names for values, given by ``root``. Raises ConversionError where a name is taken."""
    old = slots.effects.net
    net = NetDef()
    net.CopyFrom(old)

    def renamed(pairs: Iterator[tuple[str, int | None]]) -> list[str]:
        return [name if slot is None else names.get(slots.root(slot), name) for name, slot in pairs]

    def new_names(values: Mapping[str, int]) -> dict[str, str]:
        return {name: new for name, new in zip(values, renamed(iter(values.items())), strict=True) if new != name}

    for index, proto in enumerate(net.op):
        if index in slots.found:
            location = location_of(net_name, proto, index)
            _rename_control(
                proto, slots.effects.ops[index], new_names(slots.found[index]), new_names(slots.left[index]), location
            )
            continue
        for field, found in ((proto.input, slots.reads[index]), (proto.output, slots.writes[index])):
            new = renamed(zip(field, found, strict=True))
            if new != list(field):
                field[:] = new
    net.external_input[:] = dict.fromkeys(renamed((name, slots.entry.get(name)) for name in old.external_input))
    net.external_output[:] = renamed((name, slots.last.get(name)) for name in old.external_output)
    differs = slots.same_dataflow(Slots(effects_of(net, net_name), identities))
    if differs is not None:
        location = location_of(net_name, net.op[differs], differs) if differs < len(net.op) else Location(net_name)
        taken = ", ".join(map(repr, dict.fromkeys(names.values())))
        raise illegal(
            f"with the new name {taken} the operator would read or write another value", location, "use another name"
        )
    return net


def _rename_control(
    proto: OperatorDef, op: OpEffects, found: Mapping[str, str], left: Mapping[str, str], location: Location
) -> None:
    if not found and not left:
        return
    assert op.control is not None  # it has bodies
    names = {**found, **left}
    if op.control.scope is not BodyScope.SEALED:
        inside = {name for body in op.bodies.values() for name in all_names(body.net)}
        taken = next((new for new in names.values() if new in inside), None)
        if taken is not None:
            raise illegal(f"a body of this operator already uses the name {taken!r}", location, "use another name")
    reason = next((why for name in names if (why := op.control.why_fixed(name)) is not None), None)
    if reason is not None:
        raise illegal(reason, location)
    rename_control(proto, found, left)
