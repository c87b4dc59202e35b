"""What an operator does to the blobs of its workspace, its bodies included.

An operator *writes* a blob where the value before does not matter; it *updates* one where the value before may shine
through and the operator must find it under the name that it writes; it *merges* one where a branch writes it and
another leaves it; it *mutates* an object that has an identity and no value of its own, such as a stack of workspaces;
it *passes* what it declares as output and never writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.in_place import is_special, mutated, updated

RECURRENT: Final = frozenset({"RecurrentNetwork", "RecurrentNetworkGradient"})
BRANCHES: Final = frozenset({"If", "AsyncIf"})

BODIES: Final[Mapping[str, tuple[str, ...]]] = {
    "If": ("then_net", "else_net"),
    "AsyncIf": ("then_net", "else_net"),
    "While": ("cond_net", "loop_net"),
    "Do": ("net",),
    "ONNXWhile": ("body",),
    "RecurrentNetwork": ("step_net", "backward_step_net"),
    "RecurrentNetworkGradient": ("step_net", "backward_step_net"),
}
_REQUIRED: Final = frozenset({"then_net", "loop_net", "net", "body", "step_net"})


@dataclass(slots=True)
class OpEffects:
    """What one operator does in its workspace.

    ``soft`` are reads of blobs that may be absent; ``through`` is not read, but its value may shine through a body.
    """

    reads: Sequence[str]
    writes: Sequence[str]
    updates: Sequence[str] = ()
    merges: Sequence[str] = ()
    mutates: Sequence[str] = ()
    passes: Sequence[str] = ()
    soft: Sequence[str] = ()
    through: Sequence[str] = ()
    bodies: Mapping[str, NetEffects] = field(default_factory=dict)


@dataclass(slots=True)
class NetEffects:
    """What a net does in its workspace: by operator, and as a whole (dictionaries serve as ordered sets).

    ``exposed`` and ``soft`` are read before the net is sure to have written them, ``through`` may keep the value that
    they had; ``must`` is written whatever happens, ``may`` includes it. ``mutates`` holds objects.
    """

    net: NetDef
    ops: list[OpEffects]
    exposed: dict[str, None]
    soft: dict[str, None]
    through: dict[str, None]
    may: dict[str, None]
    must: set[str]
    mutates: dict[str, None]


def analyse(net: NetDef, location: Location, findings: list[Diagnostic]) -> NetEffects:
    """The effects of a net; what is wrong with arguments of control operators is added to ``findings``."""
    result = NetEffects(net, [], {}, {}, {}, {}, set(), {})
    for index, proto in enumerate(net.op):
        if proto.type in BODIES and not proto.domain:
            place = Location(location.net, index, proto.type, proto.name, location.path)
            try:
                op = _control(OpView(proto, index), place, findings)
            except ArgumentError as error:
                findings.append(Diagnostic("invalid-argument", str(error), place))
                op = OpEffects(tuple(proto.input), tuple(proto.output))
        else:
            op = _plain(proto)
        result.ops.append(op)
        _add(result, op)
    return result


def _add(result: NetEffects, op: OpEffects) -> None:
    must, may = result.must, result.may
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
    must.update(name for name in op.updates if name in result.exposed)
    for names in (op.updates, op.merges):
        may.update(dict.fromkeys(names))
    for name in op.mutates:
        result.mutates.setdefault(name)
    for name in op.writes:
        may.setdefault(name)
        must.add(name)


def _plain(op: OperatorDef) -> OpEffects:
    inputs, outputs = list(op.input), list(op.output)
    if "" in inputs or "" in outputs:
        inputs, outputs = [name for name in inputs if name], [name for name in outputs if name]
    if op.domain or not is_special(op.type):
        return OpEffects(inputs, outputs)
    mutates, updates = mutated(op.type, inputs, outputs), updated(op.type, inputs, outputs)
    writes = [name for name in outputs if name not in mutates and name not in updates]
    return OpEffects(inputs, writes, updates=updates, mutates=mutates, soft=updates)


def _control(op: OpView, place: Location, findings: list[Diagnostic]) -> OpEffects:
    bodies: dict[str, NetEffects] = {}
    for name in BODIES[op.type]:
        arg = op.args.raw(name)
        if name in _REQUIRED or (arg is not None and (arg.HasField("n") or arg.HasField("s"))):
            net = op.args.net(name)
            if net is not None:
                bodies[name] = analyse(net, place.enter(name), findings)
    if op.type in BRANCHES:
        return _branches(op, bodies)
    if op.type == "While":
        return _while(op, bodies)
    if op.type == "Do":
        return _do(op, bodies)
    if op.type == "ONNXWhile":
        return _onnx_while(op, bodies)
    return _recurrent(op, bodies)


def _union(*groups: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys(name for group in groups for name in group if name)


def _branches(op: OpView, bodies: Mapping[str, NetEffects]) -> OpEffects:
    parts = list(bodies.values())
    may = _union(*(part.may for part in parts))
    both = len(parts) == 2
    writes = [name for name in may if both and all(name in part.must for part in parts)]
    sure = set(writes)
    mutates = _union(*(part.mutates for part in parts))
    return OpEffects(
        list(_union(op.inputs, *(part.exposed for part in parts))),
        writes,
        merges=[name for name in may if name not in sure],
        mutates=[name for name in mutates if name not in may],
        passes=[name for name in _union(op.outputs) if name not in may and name not in mutates],
        soft=list(_union(*(part.soft for part in parts))),
        through=list(_union(*(part.through for part in parts))),
        bodies=bodies,
    )


def _while(op: OpView, bodies: Mapping[str, NetEffects]) -> OpEffects:
    loop, cond = bodies["loop_net"], bodies.get("cond_net")
    first = cond or loop
    exposed = _union(first.exposed, (name for name in loop.exposed if cond is None or name not in cond.may))
    updates = _union(*(part.may for part in bodies.values()))
    mutates = _union(*(part.mutates for part in bodies.values()))
    return OpEffects(
        list(_union(op.inputs, exposed)),
        (),
        updates=list(updates),
        mutates=[name for name in mutates if name not in updates],
        passes=[name for name in _union(op.outputs) if name not in updates and name not in mutates],
        soft=list(_union(*(part.soft for part in bodies.values()), loop.exposed)),
        through=list(_union(*(part.through for part in bodies.values()))),
        bodies=bodies,
    )


def keep_live(net: NetEffects, live_out: Iterable[str]) -> None:
    """Take from branches and loops what they write for themselves alone.

    That is what they do not declare, nobody reads after them, no next iteration reads, and is not in ``live_out``.
    """
    live = {*live_out}
    for proto, op in zip(reversed(net.net.op), reversed(net.ops), strict=True):
        if not proto.domain and (proto.type == "While" or proto.type in BRANCHES):
            kept = {*proto.output, *op.reads, *op.soft} if proto.type == "While" else set(proto.output)
            op.writes = [name for name in op.writes if name in kept or name in live]
            op.updates = [name for name in op.updates if name in kept or name in live]
            op.merges = [name for name in op.merges if name in kept or name in live]
        live.update(op.reads, op.mutates, op.soft)


def do_bindings(op: OpView) -> dict[str, str]:
    """Inner to outer names of a Do. Raises ArgumentError where they are not what the operator takes."""
    inner, positions = op.args.texts("inner_blobs", ()), op.args.integers("outer_blobs_idx", ())
    if not op.inputs or not op.outputs or op.inputs[-1] != op.outputs[-1]:
        raise ArgumentError("a Do must end its inputs and its outputs with the same blob of workspaces")
    outer = op.inputs[:-1] + op.outputs[:-1]
    if len(inner) != len(positions):
        raise ArgumentError(f"'inner_blobs' has {len(inner)} names, 'outer_blobs_idx' {len(positions)} positions")
    wrong = [position for position in positions if not 0 <= position < len(outer)]
    if wrong:
        raise ArgumentError(f"'outer_blobs_idx' holds {wrong[0]}, but there are {len(outer)} outer blobs")
    bound = [outer[position] for position in positions]
    for what, names in (("'inner_blobs'", inner), ("'outer_blobs_idx'", bound)):
        twice = _repeated(names)
        if twice:
            raise ArgumentError(f"{what} binds {twice[0]!r} twice")
    unbound = [name for name in outer if name not in set(bound)]
    if unbound:
        raise ArgumentError(f"'outer_blobs_idx' leaves the outer blob {unbound[0]!r} unbound")
    return dict(zip(inner, bound, strict=True))


def _repeated(names: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]  # add: None


def _do(op: OpView, bodies: Mapping[str, NetEffects]) -> OpEffects:
    net = bodies["net"]
    inputs, outputs = set(op.inputs[:-1]), set(op.outputs[:-1])
    reads, mutates = _union(op.inputs), {op.inputs[-1]: None} if op.inputs else {}
    writes: list[str] = []
    updates: list[str] = []
    passes: list[str] = []
    bindings = do_bindings(op)
    for inner, outer in bindings.items():
        if inner in net.exposed:
            reads.setdefault(outer)
        if inner in net.may:
            whole = inner in net.must and not any(inner in names for names in (net.exposed, net.soft, net.through))
            (writes if whole and outer not in inputs else updates).append(outer)
        elif inner in net.mutates:
            mutates.setdefault(outer)
        elif outer in outputs:
            passes.append(outer)
    soft = [outer for inner, outer in bindings.items() if inner in net.soft]
    return OpEffects(
        list(reads), writes, updates=updates, mutates=list(mutates), passes=passes, soft=soft, bodies=bodies
    )


def loop_formals(op: OpView, body: NetDef) -> tuple[str, ...]:
    """Names of an ONNXWhile body that are its parameters: the iteration, the condition, what the loop carries."""
    carried = op.args.optional_integer("num_loop_carried_deps", -1)
    count = len(op.inputs) if carried == -1 else 2 + carried
    return tuple(body.external_input)[:count]


def _onnx_while(op: OpView, bodies: Mapping[str, NetEffects]) -> OpEffects:
    body = bodies["body"]
    formals = set(loop_formals(op, body.net))
    captures = [name for name in body.exposed if name not in formals]
    soft = [name for name in (*body.soft, *body.through) if name not in formals]
    return OpEffects(list(_union(op.inputs, captures)), tuple(_union(op.outputs)), soft=soft, bodies=bodies)


def step_names(op: OpView) -> set[str]:
    """Names that a step net has from its links, the time step and the memory planner's renames, not from outside."""
    renamed = [op.args.text(name) for name in op.args if name.endswith(".rename")]
    links = (op.args.texts(name, ()) for name in ("link_internal", "backward_link_internal"))
    return {op.args.text("timestep", "timestep"), *renamed, *(name for names in links for name in names)}


def shared_views(op: OpView) -> set[str]:
    """Blobs of a step net that are views of rows which another of its blobs is a view of too."""
    args = op.args
    internal, external = args.texts("link_internal", ()), args.texts("link_external", ())
    offset = args.integers("link_offset", ())
    window = args.integers("link_window", ()) or (1,) * len(internal)
    links = list(zip(internal, external, offset, window, strict=False))
    return {
        name
        for name, blob, start, rows in links
        for other, other_blob, other_start, other_rows in links
        if name != other and blob == other_blob and start < other_start + other_rows and other_start < start + rows
    }


def derived_from(op: OpView) -> tuple[str, ...]:
    """Blobs for whose gradients a RecurrentNetworkGradient derives the name: the states and the input sequence."""
    sequence = len(op.args.integers("outputs_with_grads", ()))
    return (*op.args.texts("recurrent_states", ()), *op.inputs[sequence : sequence + 1])


def renamed(op: OpView, name: str) -> str:
    """The name that a RecurrentNetworkGradient really uses for a blob (its ``<blob>.rename`` arguments)."""
    return op.args.text(f"{name}.rename", name)


def _recurrent(op: OpView, bodies: Mapping[str, NetEffects]) -> OpEffects:
    gradient = op.type == "RecurrentNetworkGradient"
    args = op.args
    states = args.texts("recurrent_states", ())
    inner = step_names(op)
    main = bodies.get("backward_step_net") if gradient else bodies["step_net"]
    if gradient:
        links = [renamed(op, name) for name in args.texts("backward_link_external", ())]
        grads = [renamed(op, f"{name}_grad") for name in derived_from(op)]
        made = [name for name in (*links, *grads) if name not in op.inputs]
        writes = _union(op.outputs, made)
        inner |= set(bodies["step_net"].may)
        reads = _union(op.inputs)
        soft = _union(states, links, args.texts("link_external", ()), args.texts("alias_dst", ()))
    else:
        writes = _union(op.outputs, states, args.texts("alias_dst", ()))
        reads = _union(op.inputs)
        soft = _union(args.texts("link_external", ()), args.texts("alias_src", ()))
    for body in bodies.values():
        captures = (name for name in body.exposed if name not in inner and (gradient or name not in states))
        (reads if body is main else soft).update(dict.fromkeys(captures))
        soft.update(dict.fromkeys(name for name in (*body.soft, *body.through) if name not in inner))
    if not gradient:  # the states are this operator's own: what is read under their names is not what was before
        reads = _union(name for name in reads if name not in states or name in op.inputs)
        soft = _union(name for name in soft if name not in states)
    return OpEffects(list(reads), list(writes), soft=list(soft), bodies=bodies)


def all_names(net: NetDef) -> Iterator[str]:
    """Every text in a net that could be a blob name: operands, external blobs, string arguments, all bodies."""
    yield from net.external_input
    yield from net.external_output
    for op in net.op:
        yield from op.input
        yield from op.output
        for arg in op.arg:
            if arg.HasField("s"):
                yield arg.s.decode(errors="replace")
                if op.type in RECURRENT and arg.name.endswith("step_net"):
                    yield from _names_in_text(op, arg.name)
            for value in arg.strings:
                yield value.decode(errors="replace")
            if arg.HasField("n"):
                yield from all_names(arg.n)
            for sub_net in arg.nets:
                yield from all_names(sub_net)
            if arg.name.endswith(".rename"):
                yield arg.name.removesuffix(".rename")


def _names_in_text(op: OperatorDef, name: str) -> Iterator[str]:
    """The names in a net that is written as text; none where it cannot be read, which is a finding of the analysis."""
    try:
        net = OpView(op, 0).args.net(name)
    except ArgumentError:
        return
    if net is not None:
        yield from all_names(net)
