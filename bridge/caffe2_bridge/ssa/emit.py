"""Write the names of versions into a net and its bodies, in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from caffe2_bridge.control import BodyScope, ControlOperator, Role
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, keep_live, names_of_bodies
from caffe2_bridge.ssa.version_names import Entry, Names, NetVersions, OpVersions

# The debug_info of operators that are in no net that the user wrote.
INSERTED: Final = "inserted by the conversion"


def rewrite_own(
    effects: NetEffects,
    entries: Mapping[str, Entry],
    live_out: Iterable[str],
    names: Names,
    shared: Collection[str] = (),
) -> None:
    """Rewrite a net that has a workspace of its own: each blob keeps its name at entry and at its last version.

    Blobs among ``shared`` keep it at every version.
    """
    net = effects.net
    keep_live(effects, [*live_out, *net.external_output])
    here = names.workspace()
    versions = NetVersions(
        effects,
        entry=lambda name, sure: entries.get(name) or Entry(name, defined=sure),
        final=lambda name: name,
        names=here,
        shared=shared,
    )
    emit(effects, versions, here)
    _assign(net.external_input, [entries[name].name if name in entries else name for name in net.external_input])


def _rewrite_shared(
    effects: NetEffects,
    entries: Mapping[str, Entry],
    finals: Mapping[str, str],
    names: Names,
    tail: Iterable[OperatorDef] = (),
) -> None:
    """Rewrite a net that runs in the workspace of its operator; ``tail`` are operators to add at its end."""
    keep_live(effects, finals)
    versions = NetVersions(effects, entry=lambda name, _: entries.get(name), final=finals.get, names=names)
    # An update of a value that may not have existed kept its name; here the value certainly exists.
    moved = {name: (versions.last[name].name, final) for name, final in finals.items() if name in versions.last}
    tail = [*tail, *(_copy(*pair, at=last) for pair, last in _moves(effects, moved))]
    emit(effects, versions, names, tail)
    net = effects.net
    inputs = [entries[name].name if name in entries else name for name in net.external_input]
    found = [version.name for version in versions.entries.values() if version is not None]
    copied = [name for op in tail for name in op.input]
    _assign(net.external_input, dict.fromkeys([*inputs, *found, *copied]))
    outputs = []
    for name in net.external_output:
        last = versions.last.get(name)
        outputs.append(last.name if last else entries[name].name if name in entries else finals.get(name, name))
    written = [final for name, final in finals.items() if name in effects.may]
    written += [name for op in tail for name in op.output]
    _assign(net.external_output, dict.fromkeys([*outputs, *written]))


def _moves(effects: NetEffects, pairs: Mapping[str, tuple[str, str]]) -> Iterator[tuple[tuple[str, str], OperatorDef]]:
    """Yield the pairs whose names differ, each with an operator that writes the blob."""
    needed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if needed:
        writers = {name: op for op in effects.net.op for name in op.output}
        for name, pair in needed.items():
            yield pair, writers.get(name, effects.net.op[-1])


def emit(effects: NetEffects, versions: NetVersions, names: Names, tail: Iterable[OperatorDef] = ()) -> None:
    """Write the names of ``versions`` into the operators of a net, with the copies that they need."""
    copies: dict[int, list[OperatorDef]] = {}
    for index, (proto, op, found) in enumerate(zip(effects.net.op, effects.ops, versions.ops, strict=True)):
        if op.updates:
            needed = found.copies(op.updates)
            if needed:
                copies[index] = [_copy(source, target, proto) for source, target in needed.values()]
        if op.control is not None and op.bodies:
            _Control(proto, op.control, op, found, names).rewrite()
        else:
            _operands(proto, op, found)
    tail = list(tail)
    if copies:
        set_operators(effects.net, (op for i, proto in enumerate(effects.net.op) for op in (*copies.get(i, ()), proto)))
    effects.net.op.extend(tail)


def numbered(net: NetView) -> Iterator[tuple[int, OpView]]:
    """Return the operators of a net, each with its former index; one that was inserted has the index of the next."""
    return zip(former_indices(net.proto), net.ops, strict=True)


def former_indices(net: NetDef) -> Iterator[int]:
    """Yield the former index of each operator of a net; one that was inserted has the index of the next."""
    copies = 0
    for index, op in enumerate(net.op):
        yield index - copies
        copies += op.debug_info == INSERTED


def forget_copies(net: NetDef) -> None:
    """Remove the marks from copies that were inserted."""
    for op in net.op:
        if op.debug_info == INSERTED:
            op.ClearField("debug_info")
        for arg in op.arg:
            if arg.HasField("n"):
                forget_copies(arg.n)


def _assign(field: Iterable[str], values: Iterable[str]) -> None:
    values = list(values)
    if list(field) != values:
        field[:] = values  # type: ignore[index]  # a repeated field of the protobuf library


def _copy(source: str, target: str, at: OperatorDef) -> OperatorDef:
    op = OperatorDef(type="Copy", input=[source], output=[target], debug_info=INSERTED)
    if at.HasField("device_option"):
        op.device_option.CopyFrom(at.device_option)
    return op


def _inputs(names: Iterable[str], op: OpEffects, found: OpVersions) -> list[str]:
    before = {**found.before, **{name: found.after[name] for name in op.updates}} if op.updates else found.before
    return [name if (version := before.get(name)) is None else version.group.name for name in names]


def _outputs(names: Iterable[str], op: OpEffects, found: OpVersions) -> list[str]:
    """Return the new names; a blob that only passes through, and has a value, is not an output."""
    after = found.after
    dropped = {name for name in op.passes if name not in after} if op.passes else ()
    return [after[name].group.name if name in after else name for name in names if name not in dropped]


def _operands(proto: OperatorDef, op: OpEffects, found: OpVersions) -> None:
    inputs, outputs = _inputs(op.inputs, op, found), _outputs(op.outputs, op, found)
    if inputs != op.inputs:
        proto.input[:] = inputs
    if outputs != op.outputs:
        proto.output[:] = outputs


class _Control:
    """Rewrites one operator that has bodies."""

    def __init__(
        self, proto: OperatorDef, control: ControlOperator, effects: OpEffects, found: OpVersions, names: Names
    ) -> None:
        self.proto = proto
        self.control = control
        self.effects = effects
        self.found = found
        self.names = names

    def rewrite(self) -> None:
        """Rewrite bodies, arguments and operands."""
        match self.control.scope:
            case BodyScope.SHARED:
                self._shared()
            case BodyScope.SEALED:
                self._sealed()
            case BodyScope.NESTED:
                self._nested()

    def _entries(self) -> dict[str, Entry]:
        found = self.found.before.items()
        return {name: Entry(version.name, version.defined) for name, version in found if version is not None}

    def _had_value(self, name: str) -> bool:
        before = self.found.before.get(name)
        return before is not None and before.defined

    def _shared(self) -> None:
        """Rewrite bodies in the operator's workspace: what they leave has the operator's names, in all of them."""
        op, after, entries = self.effects, self.found.after, self._entries()
        entries.update({name: Entry(after[name].name, self._had_value(name)) for name in op.updates})
        finals = {name: after[name].name for name in op.changed}
        needed = self.found.copies(op.merges)
        parts = list(op.bodies.values())
        missing = self.control.optional_branch
        if needed and missing is not None and missing not in op.bodies:
            parts.append(self._new_branch(missing, parts[0].net))
        tails = [self._missing_copies(part, needed, parts) for part in parts]
        for part, tail in zip(parts, tails, strict=True):
            _rewrite_shared(part, entries, finals, self.names, tail)
        self._complete()

    def _new_branch(self, argument: str, other: NetDef) -> NetEffects:
        net = self.proto.arg.add(name=argument).n
        net.name = f"{other.name}_else" if other.name else ""
        net.type = other.type
        return NetEffects(net)

    def _missing_copies(
        self, part: NetEffects, needed: Mapping[str, tuple[str, str]], parts: Iterable[NetEffects]
    ) -> list[OperatorDef]:
        missing = {name: pair for name, pair in needed.items() if name not in part.may}
        if not missing:
            return []
        writers = {name: op for other in parts for op in other.net.op for name in op.output}
        return [_copy(*pair, at=writers.get(name, self.proto)) for name, pair in missing.items()]

    def _complete(self) -> None:
        """Declare what the bodies use and have a value for, what may pass through them, and what they write."""
        shared = set(self.effects.updates)
        inputs = _inputs(self.proto.input, self.effects, self.found)
        for name, before in self.found.before.items():
            if before is not None and before.defined:
                inputs.append(self.found.after[name].name if name in shared else before.name)
        declared = len(self.proto.input)
        _assign(self.proto.input, [*inputs[:declared], *_missing(inputs[declared:], inputs[:declared])])
        outputs = _outputs(self.proto.output, self.effects, self.found)
        changed = _outputs(self.effects.changed, self.effects, self.found)
        _assign(self.proto.output, [*outputs, *_missing(changed, outputs)])

    def _sealed(self) -> None:
        """Rewrite bodies with names of their own for outer blobs: these keep their names inside."""
        for name, body in self.effects.bodies.items():
            formals = self.control.bodies[name].formals
            entries = {
                formal.name: Entry(formal.name, formal.source is None or self._had_value(formal.source))
                for formal in formals
            }
            rewrite_own(body, entries, entries, self.names)
        self._bind_operands()

    def _bind_operands(self) -> None:
        """Declare blobs that bodies may write as inputs, drop blobs that only pass, and bind the operands again."""
        op, stacks = self.effects, list(self.control.stacks)
        inputs, outputs = (list(names[: len(names) - len(stacks)]) for names in (self.proto.input, self.proto.output))
        also = [name for name in (*op.updates, *op.passes) if self._had_value(name)]
        read = [*inputs, *_missing(also, [*inputs, *stacks])]
        dropped = {name for name in op.passes if name not in self.found.after}
        written = [name for name in outputs if name not in dropped]
        written += _missing((*op.writes, *op.updates), [*outputs, *stacks])
        if (read, written) != (inputs, outputs):
            self.control.bind_operands([*read, *stacks], [*written, *stacks])
        _assign(self.proto.input, _inputs([*read, *stacks], op, self.found))
        _assign(self.proto.output, _outputs([*written, *stacks], op, self.found))

    def _nested(self) -> None:
        """Rewrite bodies with workspaces of their own: they find outer blobs by name, and write names of their own."""
        control, bodies, after = self.control, self.effects.bodies, self.found.after
        runs = any(control.bodies[name].role is Role.RUN for name in bodies)
        own = names_of_bodies(control, bodies) if runs else set(control.own_names)
        entries = self._entries()
        entries.update({name: Entry(after[name].name, defined=True) for name in control.fills})
        entries.update({name: Entry(name, defined=True) for name in own})
        for name, body in bodies.items():
            others = [other for other in bodies.values() if other is not body]
            live = {*own, *(blob for other in others for blob in (*other.exposed, *other.soft))}
            rewrite_own(body, entries, live, self.names, control.overlapping)
            if control.is_text(name):
                forget_copies(body.net)
                control.store(name)
        control.rename_arguments(self._found_name, self._left_name)
        _operands(self.proto, self.effects, self.found)

    def _found_name(self, name: str) -> str:
        known = self.found.before.get(name) or self.found.after.get(name)
        return known.name if known else name

    def _left_name(self, name: str) -> str:
        known = self.found.after.get(name) or self.found.before.get(name)
        return known.name if known else name


def _missing(names: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    known = set(present)
    for name in names:
        if name not in known:
            known.add(name)
            yield name
