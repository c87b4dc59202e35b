"""Control flow: If, AsyncIf, While, Do and ONNXWhile as ONNX's If and Loop.

The bodies of If and While run in the workspace around them: they see every blob, and every blob that they write can be
read after them. The net of a Do sees the blobs that are bound to names of its own, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from caffe2_bridge.control import Do, If, OnnxWhile, Scope, While, control_of
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.emit import int8_values
from caffe2_frontend.emit.shapes import cast, reshape, squeeze
from caffe2_frontend.emit.subgraphs import Step, common_shape, emit_branches, loop
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.reads import count_reads

family = Family("control")

_CONDITION = {0: TensorInfo(ir.DataType.BOOL, (1,))}


@family.converts("CreateScope")
def create_scope(op: Op) -> tuple[None]:
    """CreateScope() -> scope.

    The scope is a stack of workspaces, not a tensor; the Do operators that use it are inlined. A new stack is empty:
    blobs that an earlier one of this name kept are forgotten.
    """
    for name in op.view.outputs:
        for blob in [blob for blob in op.scope.blobs if blob.startswith(_local(name, ""))]:
            del op.scope.blobs[blob]
    return (None,)


@family.converts("If", "AsyncIf", expects=_CONDITION)
def conditional(op: Op) -> tuple[Value | None, ...]:
    """If | AsyncIf(condition, *inputs; then_net[, else_net]) -> outputs.

    Blobs that only one branch writes keep their previous value in the other.
    """
    condition = op.input(0)
    control = If(op.view)
    nets = [body.net for body in control.bodies.values()]
    sides = []
    for argument in control.arguments:
        inside = op.inside(op.scope.child())
        if argument in control.bodies:
            op.lower_body(control.bodies[argument].net, inside.scope, argument)
        sides.append(inside)
    changed = []
    for name in dict.fromkeys(name for inside in sides for name in inside.scope.blobs):
        values = [inside.scope.find(name) for inside in sides]
        if None not in values:
            changed.append(name)
        elif any(values) and _is_read_outside(op, name, nets):
            op.unsupported(f"{name!r} is written in one branch only, and has no value before", code="undefined-blob")
    pairs = [(inside, [_found(inside, name) for name in changed]) for inside in sides]
    for name, a, b in zip(changed, pairs[0][1], pairs[1][1], strict=True):
        _require_same_type(op, name, a, b)
    chosen = emit_branches(op, condition, pairs) if changed else []
    for name, value, a, b in zip(changed, chosen, pairs[0][1], pairs[1][1], strict=True):
        kind = int8_values.find_quantization(a)
        if kind is not None and kind == int8_values.find_quantization(b):
            int8_values.mark_quantized(value, kind)
        op.scope.bind(name, value)
    return _bound(op)


@family.converts("While", expects=_CONDITION)
def while_loop(op: Op) -> tuple[Value | None, ...]:
    """While(condition, *inputs; loop_net[, cond_net]) -> outputs.

    cond_net computes the condition before each iteration, including the first; without it loop_net does. All blobs that
    either net writes and that exist before the loop are carried.
    """
    *tests, body = While(op.view).bodies.values()
    nets = [body.net, *(test.net for test in tests)]
    for test in tests:
        op.lower_body(test.net, op.scope, test.argument)
    go = op.input(0)
    written = list(dict.fromkeys(name for net in nets for name in written_blobs(net)))
    carried = [name for name in written if op.scope.find(name) is not None]
    _require_defined(op, [name for name in written if name not in carried], nets)
    initial = [_found(op, name) for name in carried]

    def step(inside: Op, states: list[Value], _: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        for name, value in zip(carried, states, strict=True):
            inside.scope.bind(name, value)
        for part in (body, *tests):
            inside.lower_body(part.net, inside.scope, part.argument)
        return [_found(inside, op.view.inputs[0]), *(_found(inside, name) for name in carried)], []

    for name, value in zip(carried, _settled_loop(op, None, go, carried, initial, step), strict=True):
        op.scope.bind(name, value)
    return _bound(op)


@family.converts("Do")
def do(op: Op) -> tuple[Value | None, ...]:
    """Do(*inputs, scope; net, inner_blobs, outer_blobs_idx, reuse_workspace=0) -> *outputs, scope.

    inner_blobs are bound to the outer blobs at outer_blobs_idx in the concatenation of inputs and outputs. With
    reuse_workspace the other blobs of the net are kept for the next Do on the same scope.
    """
    op.args.ignore("copy_external_blobs", "saved_fwd_blobs")
    control = Do(op.view)
    outer = control.bindings
    if control.reuses_workspace:
        outer = {**outer, **_locals(control)}
    body = op.scope.child(sealed=True)
    for name, outer_name in outer.items():
        value = op.scope.find(outer_name)
        if value is not None:
            body.blobs[name] = value
    # A Do is no body of ONNX: its nodes are the outer graph's own.
    body.nodes = op.scope.nodes
    (inner,) = control.bodies.values()
    op.lower_body(inner.net, body, inner.argument)
    for name, outer_name in outer.items():
        if name in body.blobs:
            op.scope.bind(outer_name, body.blobs[name])
    return _bound(op)


def _local(workspace: str, blob: str) -> str:
    """The outer name of a blob that is kept in a reused workspace."""
    return f"{workspace}/{blob}"


def _locals(control: Do) -> dict[str, str]:
    return {name: _local(control.stack, name) for name in written_blobs(control.net) if name not in control.bindings}


@family.converts("ONNXWhile")
def onnx_while(op: Op) -> tuple[Value, ...]:
    """ONNXWhile(trip_count, condition, *initial; body, has_trip_count=0, has_cond=0, num_loop_carried_deps=-1, ...).

    The outputs are the final carried values and the stacked ones; the remaining arguments are save_scopes and
    disable_scopes=0. The operands correspond to those of ONNX's Loop. Stacked values must have one row per iteration,
    as Caffe2 concatenates them without a new dim. For a loop of no iterations Caffe2 leaves int32 there; here the
    element type is that of the body.
    """
    op.args.ignore("save_scopes")
    control = OnnxWhile(op.view)
    body, has_trips, has_condition = control.body, control.has_trip_count, control.has_condition
    initial = list(op.inputs[2 : 2 + control.carried])
    formals, results = list(body.external_input), list(body.external_output)
    if len(results) <= len(initial) or len(formals) < 2 + len(initial):
        op.unsupported("the body has fewer inputs or outputs than the loop carries", code="invalid-argument")
    if control.disables_scopes:
        _refuse_outer_changes(op, body, formals[: 2 + len(initial)])
    first = reshape(op, cast(op, op.input(1), ir.DataType.BOOL), [1])

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        condition, *carried = states
        for name, value in zip(formals, [iteration[0], condition, *carried], strict=False):
            inside.scope.bind(name, value)
        inside.lower_body(body, inside.scope, *control.bodies)
        going, *after = (_found(inside, name) for name in results)
        again = reshape(inside, cast(inside, going, ir.DataType.BOOL), [1])
        rows = [_one_row(inside, value) for value in after[len(initial) :]]
        kept = [again, *after[: len(initial)]]
        return ([again, *kept] if has_condition else kept), rows

    finals, stacked = loop(
        op, op.input(0) if has_trips else None, first if has_condition else None, [first, *initial], step
    )
    return (*finals[1:], *stacked)


def _refuse_outer_changes(op: Op, body: NetDef, carried: Sequence[str]) -> None:
    """Refuse a body without scopes that writes outer blobs which the loop does not carry."""
    for name in written_blobs(body):
        if name not in carried and op.scope.is_known(name):
            op.unsupported(
                f"its body changes blob {name!r} of the net around it, which the loop does not carry",
                hint="carry it: add it to the operator's inputs, and to the body's inputs and outputs",
            )


def _one_row(op: Op, value: Value) -> Value:
    dims = op.shape(value)
    if not dims or (isinstance(dims[0], int) and dims[0] != 1):
        op.unsupported("what the loop stacks must have a first dim of 1", code="invalid-operands")
    return squeeze(op, value, [0])


def written_blobs(net: NetDef) -> list[str]:
    """The blobs that a net writes in its workspace, including those of its branches and loops, and kept locals."""
    names: list[str] = []
    for op in NetView(net).ops:
        names += op.outputs
        control = control_of(op)
        if isinstance(control, Do) and control.reuses_workspace:
            names += _locals(control).values()
        elif control is not None and control.scope is Scope.SHARED:
            names += [name for body in control.bodies.values() for name in written_blobs(body.net)]
    return names


def _settled_loop(
    op: Op, trips: Value | None, go: Value | None, names: Sequence[str], initial: Sequence[Value], step: Step
) -> list[Value]:
    """Emit a Loop whose states have the shapes that hold in every iteration; dims that change are unknown.

    The body is emitted again, with the shapes that the previous attempt yielded, until these no longer change.
    """
    shapes = [value.shape for value in initial]
    seen: list[Value] = []

    def watched(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        after, stacked = step(inside, states, rows)
        seen[:] = after[1:] if go is not None else after
        return after, stacked

    while True:
        mark = len(op.scope.nodes)
        finals, _ = loop(op, trips, go, initial, watched, shapes)
        for name, value, start in zip(names, seen, initial, strict=True):
            _require_same_type(op, name, value, start)
        settled = [common_shape(shape, value.shape) for shape, value in zip(shapes, seen, strict=True)]
        if settled == shapes:
            return finals
        del op.scope.nodes[mark:]
        shapes = settled


def _found(op: Op, name: str) -> Value:
    value = op.scope.find(name)
    if value is None:
        op.unsupported(f"{name!r} has no value that is a tensor", code="undefined-blob")
    return value


def _bound(op: Op) -> tuple[Value | None, ...]:
    """The values of the operator's outputs after its bodies."""
    return tuple(op.scope.find(name) for name in op.view.outputs)


def _require_same_type(op: Op, name: str, a: Value, b: Value) -> None:
    if a.dtype != b.dtype:
        kinds = " and ".join("unknown" if v.dtype is None else v.dtype.name for v in (a, b))
        op.unsupported(f"{name!r} has different element types: {kinds}", code="invalid-operands")


def _require_defined(op: Op, names: Iterable[str], nets: Sequence[NetDef]) -> None:
    """Refuse blobs that only the loop writes and that are read after it, as the loop may run no iterations."""
    for name in names:
        if _is_read_outside(op, name, nets) and not op.scope.is_opaque(name):
            op.unsupported(f"{name!r} has no value if the loop does not run", code="undefined-blob")


def _is_read_outside(op: Op, name: str, nets: Sequence[NetDef]) -> bool:
    """Whether anything but the operator's own bodies reads a blob."""
    inside = sum((count_reads(net) for net in nets), Counter(op.view.inputs))
    return op.lowering.read[name] > inside[name]
