"""What an operator does to the blobs of its workspace, its bodies included.

An operator *writes* a blob where the value before does not matter; it *updates* one where the value before may remain,
at least in part, and must be found under the name that it writes; it *merges* one where one branch writes it and the
other leaves it; it *mutates* an object that has an identity and not only a value, such as a stack of workspaces; it
*passes* what it declares as output and never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_bridge.control import CONTROL_TYPES, BodyScope, ControlOperator, Role, Runs, control_of
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.in_place import SPECIAL_TYPES, updated
from caffe2_bridge.ssa.objects import INDEX_TYPES, follow_index, mutated


@dataclass(slots=True)
class OpEffects:
    """What one operator does in its workspace.

    ``inputs`` and ``outputs`` are the names that it lists. ``soft`` are reads of blobs that may be absent; ``through``
    is not read, but its value may remain after a body. ``control`` is the view of an operator with bodies, ``bodies``
    what these do, by argument.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    reads: Sequence[str]
    writes: Sequence[str]
    updates: Sequence[str] = ()
    merges: Sequence[str] = ()
    mutates: Sequence[str] = ()
    passes: Sequence[str] = ()
    soft: Sequence[str] = ()
    through: Sequence[str] = ()
    control: ControlOperator | None = None
    bodies: Mapping[str, NetEffects] = field(default_factory=lambda: _NO_BODIES)

    @property
    def changed(self) -> tuple[str, ...]:
        """Blobs that may have another value after the operator, declared or not."""
        return (*self.writes, *self.updates, *self.merges)

    @property
    def used(self) -> dict[str, None]:
        """Blobs whose value before the operator it reads, or may keep, declared or not."""
        return union(self.reads, self.soft, self.through, self.updates, self.merges, self.mutates)

    @property
    def found(self) -> dict[str, None]:
        """Those, and the blobs that it declares as outputs and only passes on."""
        return union(self.used, self.passes)

    @property
    def overwritten(self) -> set[str]:
        """Blobs that it only overwrites: nothing of the value before is found in any way."""
        return {*self.writes}.difference(self.found)

    @property
    def touched(self) -> dict[str, None]:
        """All blobs of the workspace that it finds or changes."""
        return union(self.found, self.writes)


_NO_BODIES: Final[Mapping[str, NetEffects]] = {}


@dataclass(slots=True)
class NetEffects:
    """What a net does in its workspace: by operator, and altogether (dictionaries serve as ordered sets).

    ``exposed`` and ``soft`` are read before the net is sure to have written them, ``through`` may keep the value that
    they had; ``must`` is written in any case, ``may`` includes it. ``mutates`` holds objects.
    """

    net: NetDef
    ops: list[OpEffects] = field(default_factory=list)
    exposed: dict[str, None] = field(default_factory=dict)
    soft: dict[str, None] = field(default_factory=dict)
    through: dict[str, None] = field(default_factory=dict)
    may: dict[str, None] = field(default_factory=dict)
    must: set[str] = field(default_factory=set)
    mutates: dict[str, None] = field(default_factory=dict)

    @property
    def found(self) -> dict[str, None]:
        """Blobs of which it may find, or keep, the value before it runs."""
        return union(self.exposed, self.soft, self.through)


def union(*groups: Iterable[str]) -> dict[str, None]:
    """Return the names of all groups, in order; empty names are left out."""
    return dict.fromkeys(name for group in groups for name in group if name)


def effects_of(net: NetDef, name: str) -> NetEffects:
    """Return the effects of a net. Raises ConversionError where an argument of an operator with bodies is wrong."""
    findings: list[Diagnostic] = []
    effects = analyse(net, Location(name), findings)
    if findings:
        raise ConversionError(findings)
    return effects


def analyse(net: NetDef, location: Location, findings: list[Diagnostic]) -> NetEffects:
    """Return the effects of a net; diagnostics of arguments of operators with bodies are added to ``findings``."""
    result = NetEffects(net)
    unfrozen = set[str]()
    for index, proto in enumerate(net.op):
        op_type = proto.type
        control = control_of(OpView(proto, index)) if op_type in CONTROL_TYPES else None
        if control is None:
            op = _plain(proto, op_type)
            if op_type in INDEX_TYPES and not proto.domain:
                op.mutates = op.mutates or follow_index(proto, unfrozen)
        else:
            here = Location(location.net, index, proto.type, proto.name, location.path)
            try:
                op = _control(control, here, findings)
            except ArgumentError as error:
                findings.append(Diagnostic("invalid-argument", str(error), here))
                op = _refused(proto)
        result.ops.append(op)
        _add(result, op)
    return result


def _add(result: NetEffects, op: OpEffects) -> None:
    must, may = result.must, result.may
    if op.control is None and not (op.updates or op.mutates):  # the most frequent
        for name in op.reads:
            # A read behind a write that is not sure may find either value: it is soft, not exposed.
            if name not in must:
                (result.soft if name in may else result.exposed).setdefault(name)
        may.update(dict.fromkeys(op.writes))
        must.update(op.writes)
        return
    for names, known in (
        (op.reads, result.exposed),
        (op.mutates, result.exposed),
        (op.soft, result.soft),
        (op.through, result.through),
        (op.passes, result.through),
        (op.updates, result.through),
        (op.merges, result.through),
    ):
        for name in names:
            if name not in must:
                (result.soft if known is result.exposed and name in may else known).setdefault(name)
    # An exposed blob has a value in any case, so that it has one after an update, whatever that did.
    must.update(name for name in op.updates if name in result.exposed)
    for names in (op.updates, op.merges):
        may.update(dict.fromkeys(names))
    for name in op.mutates:
        result.mutates.setdefault(name)
    for name in op.writes:
        may.setdefault(name)
        must.add(name)


def _plain(op: OperatorDef, op_type: str) -> OpEffects:
    inputs, outputs = op.input[:], op.output[:]  # a slice takes half the time of a list of the field
    reads, writes = inputs, outputs
    if "" in inputs or "" in outputs:
        reads, writes = [name for name in inputs if name], [name for name in outputs if name]
    if op_type not in SPECIAL_TYPES or op.domain:
        return OpEffects(inputs, outputs, reads, writes)
    mutates, updates = mutated(op_type, reads, writes), updated(op_type, reads, writes)
    writes = [name for name in writes if name not in mutates and name not in updates]
    return OpEffects(inputs, outputs, reads, writes, updates=updates, mutates=mutates, soft=updates)


def _refused(op: OperatorDef) -> OpEffects:
    """Return what a wrong operator lists; operands that are outputs too keep their names: a reason stays the same."""
    inputs, outputs = op.input[:], op.output[:]
    writes = [name for name in outputs if name not in inputs]
    return OpEffects(inputs, outputs, inputs, writes, mutates=[name for name in outputs if name in inputs])


def _control(control: ControlOperator, here: Location, findings: list[Diagnostic]) -> OpEffects:
    bodies = {name: analyse(body.net, here.enter(name), findings) for name, body in control.bodies.items()}
    if control.scope is BodyScope.NESTED:
        return _nested(control, bodies)
    if control.scope is BodyScope.SEALED:
        return _sealed(control, bodies)
    return _branches(control, bodies) if control.runs is Runs.BRANCH else _repeated(control, bodies)


def _branches(control: ControlOperator, bodies: Mapping[str, NetEffects]) -> OpEffects:
    """Return effects of alternatives in the operator's workspace: what all write is written, the rest is merged."""
    parts = list(bodies.values())
    may = union(*(part.may for part in parts))
    # An If without an else has a branch that writes nothing: then no write is sure.
    complete = len(parts) == len(control.arguments)
    writes = [name for name in may if complete and all(name in part.must for part in parts)]
    sure = set(writes)
    mutates = union(*(part.mutates for part in parts))
    return OpEffects(
        control.op.inputs,
        control.op.outputs,
        list(union(control.op.inputs, *(part.exposed for part in parts))),
        writes,
        merges=[name for name in may if name not in sure],
        mutates=[name for name in mutates if name not in may],
        passes=[name for name in union(control.op.outputs) if name not in may and name not in mutates],
        soft=list(union(*(part.soft for part in parts))),
        through=list(union(*(part.through for part in parts))),
        control=control,
        bodies=bodies,
    )


def _repeated(control: ControlOperator, bodies: Mapping[str, NetEffects]) -> OpEffects:
    """Return effects of bodies repeated in the operator's workspace: the next iteration finds what this one wrote."""
    parts = list(bodies.values())
    exposed: dict[str, None] = {}
    written: dict[str, None] = {}
    # The test of a While runs before its body: what it may write is not exposed by a read there.
    for part in parts:
        exposed.update(dict.fromkeys(name for name in part.exposed if name not in written))
        written.update(part.may)
    mutates = union(*(part.mutates for part in parts))
    return OpEffects(
        control.op.inputs,
        control.op.outputs,
        list(union(control.op.inputs, exposed)),
        (),
        updates=list(written),
        mutates=[name for name in mutates if name not in written],
        passes=[name for name in union(control.op.outputs) if name not in written and name not in mutates],
        soft=list(union(*(part.soft for part in parts), *(part.exposed for part in parts[1:] or parts))),
        through=list(union(*(part.through for part in parts))),
        control=control,
        bodies=bodies,
    )


def _sealed(control: ControlOperator, bodies: Mapping[str, NetEffects]) -> OpEffects:
    """Return the effects of bodies that find and write outer blobs under other names, and no others."""
    inputs, outputs = ({*names}.difference(control.stacks) for names in (control.op.inputs, control.op.outputs))
    reads, mutates, soft = union(control.op.inputs), union(control.stacks), dict[str, None]()
    writes, updates, passes = dict[str, None](), dict[str, None](), dict[str, None]()
    for name, net in bodies.items():
        for formal in control.bodies[name].formals:
            inner, outer = formal.name, formal.source
            if outer is None:
                continue
            if inner in net.exposed:
                reads.setdefault(outer)
            if inner in net.soft:
                soft.setdefault(outer)
            if inner in net.may:
                # Only a body that never looks at the outer value overwrites it; any other one updates it in place.
                overwritten = inner in net.must and inner not in net.found and outer not in inputs
                (writes if overwritten else updates).setdefault(outer)
            elif inner in net.mutates:
                mutates.setdefault(outer)
            elif outer in outputs:
                passes.setdefault(outer)
    return OpEffects(
        control.op.inputs,
        control.op.outputs,
        list(reads),
        list(writes),
        updates=list(updates),
        mutates=list(mutates),
        passes=list(passes),
        soft=list(soft),
        control=control,
        bodies=bodies,
    )


def _nested(control: ControlOperator, bodies: Mapping[str, NetEffects]) -> OpEffects:
    """Return effects of bodies that see the blobs around them, and write their own: the operator writes its results.

    What bodies find under the name of a blob that the operator fills is not what was there before.
    """
    own = names_of_bodies(control, bodies)
    fills = {*control.fills}
    reads, soft = union(control.op.inputs), union(control.may_read)
    for name, net in bodies.items():
        captured = dict.fromkeys(blob for blob in net.exposed if blob not in own and blob not in fills)
        (reads if control.bodies[name].role is Role.RUN else soft).update(captured)
        soft.update(dict.fromkeys(blob for blob in (*net.soft, *net.through) if blob not in own))
    declared = set(control.op.inputs)
    return OpEffects(
        control.op.inputs,
        control.op.outputs,
        [name for name in reads if name not in fills or name in declared],
        list(union(control.writes)),
        updates=control.updates,
        soft=[name for name in soft if name not in fills],
        control=control,
        bodies=bodies,
    )


def names_of_bodies(control: ControlOperator, bodies: Mapping[str, NetEffects]) -> set[str]:
    """Return names that mean no outer blob in the bodies: bound ones, and what an earlier operator's body has left."""
    past = (net.may for name, net in bodies.items() if control.bodies[name].role is Role.PAST)
    return {*control.own_names, *union(*past)}


def keep_live(net: NetEffects, live_out: Iterable[str]) -> None:
    """Remove from the effects of branches and loops the writes that only their bodies see.

    These are the blobs that the operator does not declare, no later operator and no next iteration reads, and that are
    not in ``live_out``.
    """
    if all(op.control is None for op in net.ops):
        return
    # Backwards, as liveness is: at each operator, live holds what later ones read.
    live = {*live_out}
    for proto, op in zip(reversed(net.net.op), reversed(net.ops), strict=True):
        if op.control is not None and op.control.scope is BodyScope.SHARED:
            kept = {*proto.output, *live}
            if op.control.runs is Runs.LOOP:
                # The next iteration reads what this one wrote.
                kept |= {*op.reads, *op.soft}
            op.writes = [name for name in op.writes if name in kept]
            op.updates = [name for name in op.updates if name in kept]
            op.merges = [name for name in op.merges if name in kept]
        live.update(op.reads, op.mutates, op.soft)
