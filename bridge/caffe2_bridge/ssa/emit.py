"""Writes the names of versions into a net and its bodies. The nets are changed in place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from google.protobuf import text_format

from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef
from caffe2_bridge.ssa.effects import (
    BRANCHES,
    RECURRENT,
    NetEffects,
    OpEffects,
    derived_from,
    do_bindings,
    keep_live,
    loop_formals,
    renamed,
    shared_views,
    step_names,
)
from caffe2_bridge.ssa.version_names import Entry, Names, NetVersions, OpVersions

# The debug_info of copies that stand in no net that the user wrote.
_INSERTED: Final = "inserted by the renaming of versions"
_OUTER_STRINGS = frozenset({"link_external", "alias_src", "alias_dst", "recurrent_states", "backward_link_external"})


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
    # An update of a value that was perhaps not there stayed under its name; now it surely is there.
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
    """The pairs whose names differ, each with an operator that writes the blob."""
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
        if op.bodies:
            _Control(OpView(proto, index), op, found, names).rewrite()
        else:
            _operands(proto, op, found)
    tail = list(tail)
    if copies:
        old = NetDef(op=effects.net.op)
        effects.net.ClearField("op")
        for index, proto in enumerate(old.op):
            effects.net.op.extend([*copies.get(index, ()), proto])
    effects.net.op.extend(tail)


def numbered(net: NetView) -> Iterator[tuple[int, OpView]]:
    """The operators of a net whose versions were renamed, each with its index before; a copy has that of the next."""
    copies = 0
    for op in net.ops:
        yield op.index - copies, op
        copies += op.proto.debug_info == _INSERTED


def forget_copies(net: NetDef) -> None:
    """Make the copies that were inserted operators like all others."""
    for op in net.op:
        if op.debug_info == _INSERTED:
            op.ClearField("debug_info")
        for arg in op.arg:
            if arg.HasField("n"):
                forget_copies(arg.n)


def _assign(field: Iterable[str], values: Iterable[str]) -> None:
    values = list(values)
    if list(field) != values:
        field[:] = values  # type: ignore[index]  # a repeated field of the protobuf library


def _copy(source: str, target: str, at: OperatorDef) -> OperatorDef:
    op = OperatorDef(type="Copy", input=[source], output=[target], debug_info=_INSERTED)
    if at.HasField("device_option"):
        op.device_option.CopyFrom(at.device_option)
    return op


def _inputs(names: Iterable[str], op: OpEffects, found: OpVersions) -> list[str]:
    shared = set(op.updates)
    result = []
    for name in names:
        version = found.after[name] if name in shared else found.before.get(name)
        result.append(version.name if version else name)
    return result


def _outputs(names: Iterable[str], op: OpEffects, found: OpVersions) -> list[str]:
    """The new names; what only passes through, and has a value, is no output."""
    dropped = {name for name in op.passes if name not in found.after}
    return [found.after[name].name if name in found.after else name for name in names if name not in dropped]


def _operands(proto: OperatorDef, op: OpEffects, found: OpVersions) -> None:
    if op.updates or any(version is not None and version.name != name for name, version in found.before.items()):
        _assign(proto.input, _inputs(proto.input, op, found))
    if any(version.name != name for name, version in found.after.items()):
        _assign(proto.output, _outputs(proto.output, op, found))


class _Control:
    """Rewrites one operator that has bodies."""

    def __init__(self, op: OpView, effects: OpEffects, found: OpVersions, names: Names) -> None:
        self.op = op
        self.proto = op.proto
        self.effects = effects
        self.found = found
        self.names = names

    def rewrite(self) -> None:
        kind = self.op.type
        if kind in BRANCHES:
            self._branches()
        elif kind == "While":
            self._while()
        elif kind == "Do":
            self._do()
        elif kind == "ONNXWhile":
            self._onnx_while()
        elif kind in RECURRENT:
            self._recurrent()

    def _before(self) -> dict[str, Entry]:
        found = self.found.before.items()
        return {name: Entry(version.name, version.defined) for name, version in found if version is not None}

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
        changed = (*self.effects.writes, *self.effects.updates, *self.effects.merges)
        _assign(self.proto.output, [*outputs, *_missing(_outputs(changed, self.effects, self.found), outputs)])

    def _branches(self) -> None:
        entries = self._before()
        finals = {name: self.found.after[name].name for name in (*self.effects.writes, *self.effects.merges)}
        needed = self.found.copies(self.effects.merges)
        then = self.effects.bodies["then_net"]
        other = self.effects.bodies.get("else_net")
        if other is None and needed:
            arg = self.proto.arg.add(name="else_net")
            arg.n.name = f"{then.net.name}_else" if then.net.name else ""
            arg.n.type = then.net.type
            other = NetEffects(arg.n, [], {}, {}, {}, {}, set(), {})
        parts = [part for part in (then, other) if part is not None]
        tails = [self._missing_copies(part, needed, parts) for part in parts]
        for part, tail in zip(parts, tails, strict=True):
            _rewrite_shared(part, entries, finals, self.names, tail)
        self._complete()

    def _missing_copies(
        self, part: NetEffects, needed: Mapping[str, tuple[str, str]], parts: Iterable[NetEffects]
    ) -> list[OperatorDef]:
        missing = {name: pair for name, pair in needed.items() if name not in part.may}
        if not missing:
            return []
        writers = {name: op for other in parts for op in other.net.op for name in op.output}
        return [_copy(*pair, at=writers.get(name, self.proto)) for name, pair in missing.items()]

    def _while(self) -> None:
        after, entries = self.found.after, self._before()
        for name in self.effects.updates:
            before = self.found.before[name]
            entries[name] = Entry(after[name].name, defined=before is not None and before.defined)
        finals = {name: after[name].name for name in self.effects.updates}
        for body in self.effects.bodies.values():
            _rewrite_shared(body, entries, finals, self.names)
        self._complete()

    def _do(self) -> None:
        bindings = do_bindings(self.op)
        entries = {}
        for inner, outer in bindings.items():
            before = self.found.before.get(outer)
            entries[inner] = Entry(inner, defined=before is not None and before.defined)
        rewrite_own(self.effects.bodies["net"], entries, entries, self.names)
        inputs, outputs = self.op.inputs, self.op.outputs
        also = [name for name in (*self.effects.updates, *self.effects.passes) if self._had_value(name)]
        read = [*inputs[:-1], *_missing(also, inputs)]
        dropped = {name for name in self.effects.passes if name not in self.found.after}
        written = [name for name in outputs[:-1] if name not in dropped]
        written += _missing((*self.effects.writes, *self.effects.updates), outputs)
        if (*read, *written) != (*inputs[:-1], *outputs[:-1]):
            positions = [(*read, *written).index(name) for name in bindings.values()]
            for arg in self.proto.arg:
                if arg.name == "outer_blobs_idx":
                    arg.ints[:] = positions
        _assign(self.proto.input, _inputs([*read, inputs[-1]], self.effects, self.found))
        _assign(self.proto.output, _outputs([*written, outputs[-1]], self.effects, self.found))

    def _had_value(self, name: str) -> bool:
        before = self.found.before[name]
        return before is not None and before.defined

    def _onnx_while(self) -> None:
        body = self.effects.bodies["body"]
        entries = self._before()
        formals = loop_formals(self.op, body.net)
        entries.update({name: Entry(name, defined=True) for name in formals})
        rewrite_own(body, entries, formals, self.names)
        _operands(self.proto, self.effects, self.found)

    def _recurrent(self) -> None:
        args = self.op.args
        gradient = self.op.type == "RecurrentNetworkGradient"
        states = args.texts("recurrent_states", ())
        entries = self._before()
        entries.update({name: Entry(self.found.after[name].name, defined=True) for name in states if not gradient})
        inner = step_names(self.op)
        if gradient and "backward_step_net" in self.effects.bodies:
            inner |= set(self.effects.bodies["step_net"].may)
        entries.update({name: Entry(name, defined=True) for name in inner})
        for name, body in self.effects.bodies.items():
            others = [other for other in self.effects.bodies.values() if other is not body]
            live = {*inner, *(name for other in others for name in (*other.exposed, *other.soft))}
            self._step_net(name, body, entries, live)
        self._recurrent_names(states, gradient=gradient)
        _operands(self.proto, self.effects, self.found)

    def _step_net(self, name: str, body: NetEffects, entries: Mapping[str, Entry], live: Iterable[str]) -> None:
        old = NetDef()
        old.CopyFrom(body.net)
        rewrite_own(body, entries, live, self.names, shared_views(self.op))
        for arg in self.proto.arg:
            if arg.name == name and arg.HasField("s") and body.net != old:
                forget_copies(body.net)
                arg.s = text_format.MessageToString(body.net).encode()

    def _recurrent_names(self, states: tuple[str, ...], *, gradient: bool) -> None:
        op, before, after = self.op, self.found.before, self.found.after
        own = {*after} if gradient else {*states}

        def outer(name: str) -> str:
            known = after[name] if name in own and name in after else before.get(name) or after.get(name)
            return known.name if known else name

        mapped: dict[str, dict[str, str]] = {name: {} for name in _OUTER_STRINGS}
        mapped["alias_dst"].update({name: after[name].name for name in op.args.texts("alias_dst", ()) if name in after})
        for kind, mapping in mapped.items():
            for name in op.args.texts(kind, ()):
                mapping.setdefault(name, outer(name))
        grads = {f"{name}_grad": f"{outer(name)}_grad" for name in (*states, *op.inputs) if outer(name) != name}
        for name in op.args.texts("backward_link_external", ()):
            if gradient:
                real = renamed(op, name)
                mapped["backward_link_external"][name] = name if outer(real) == real else outer(real)
            else:  # the names that the gradient maker will expect
                mapped["backward_link_external"][name] = grads.get(name, name)
        if gradient:
            derived = {name: outer(name) for name in derived_from(op)}
            self._gradient_names(derived, outer_names={name: outer(name) for name in after})
        for arg in self.proto.arg:
            if arg.name in mapped and arg.strings:
                mapping = mapped[arg.name]
                _assign_bytes(arg, [mapping[name.decode()].encode() for name in arg.strings])

    def _gradient_names(self, derived: Mapping[str, str], outer_names: Mapping[str, str]) -> None:
        """Keep the names that the operator derives: a state's gradient by suffix, a parameter's from its output."""
        for old, new in derived.items():
            real = renamed(self.op, f"{old}_grad")
            wanted = outer_names.get(real, real)
            if wanted != renamed(self.op, f"{new}_grad"):
                for arg in [arg for arg in self.proto.arg if arg.name == f"{new}_grad.rename"]:
                    self.proto.arg.remove(arg)
                self.proto.arg.add(name=f"{new}_grad.rename", s=wanted.encode())
        count = len(self.op.args.integers("param", ()))
        made = list(self.op.outputs[1 : 1 + count])
        if made and not self.op.args.texts("param_grads", ()) and any(outer_names[name] != name for name in made):
            self.proto.arg.add(name="param_grads", strings=[name.encode() for name in made])


def _assign_bytes(arg: Argument, values: list[bytes]) -> None:
    if list(arg.strings) != values:
        arg.strings[:] = values


def _missing(names: Iterable[str], present: Iterable[str]) -> Iterator[str]:
    known = set(present)
    for name in names:
        if name not in known:
            known.add(name)
            yield name
