"""While and ONNXWhile as ONNX's Loop.

The body of a While runs in the workspace around it: it sees every blob, and what it writes can be read after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Body, OnnxWhile, While
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.emit.shapes import cast, reshape, squeeze
from caffe2_frontend.emit.subgraphs import LoopStep, common_shape, loop
from caffe2_frontend.interop.inference.varying_ranks import mark_varying_rank, ranks_differ
from caffe2_frontend.interop.types import TensorInfo
from caffe2_frontend.lowering.context import KeptRows
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.control_flow.bodies import (
    CONDITION,
    bound_outputs,
    condition_of,
    read_outside,
    require_same_type,
    value_of,
    written_blobs,
)
from caffe2_frontend.ops.control_flow.kept_rows import NoFixedRowsError, changing_rows
from caffe2_frontend.ops.control_flow.workspaces import with_sequences

family = Family("loop")


@family.converts("While", expects=CONDITION)
@with_sequences
def while_loop(op: Op) -> tuple[Value | None, ...]:
    """While(condition, *inputs; loop_net[, cond_net]) -> outputs.

    cond_net computes the condition before each iteration, including the first; without it loop_net does. All blobs that
    either net writes and that exist before the loop are carried.
    """
    *tests, body = While(op.view).bodies.values()
    for test in tests:
        op.lower_body(test.net, op.scope, test.argument)
    stacks = _stacks(op, body.net)
    nodes = len(op.scope.nodes)
    try:
        op.lowering.kept_rows.update((stack, {}) for stack in stacks)
        _emit_while(op, [body, *tests], stacks)
    except NoFixedRowsError:
        del op.scope.nodes[nodes:]
        for stack in stacks:
            del op.lowering.kept_rows[stack]
        _emit_while(op, [body, *tests], [])
    return bound_outputs(op)


def _stacks(op: Op, net: NetDef) -> list[str]:
    """Return the stacks on which nothing but an operator of the body of this loop pushes, and that gradients read."""
    if not op.scope.outermost:
        return []
    reads = op.lowering.reads
    pushed = {inner.input[-1] for inner in net.op if inner.input and not inner.is_gradient_op} & reads.loop_stacks
    return sorted(stack for stack in pushed if reads.kept.get(stack))


def _emit_while(op: Op, bodies: Sequence[Body], stacks: Sequence[str]) -> None:
    """Emit the Loop and bind what it carries; the bodies are that of an iteration, then that of the condition, if any.

    What is kept on ``stacks`` becomes scan outputs. Raises NoFixedRowsError where it cannot.
    """
    nets = [body.net for body in bodies]
    written = list(dict.fromkeys(name for net in nets for name in written_blobs(op, net)))
    carried = [name for name in written if op.scope.find(name) is not None]
    last = _read_after(op, [name for name in written if name not in carried], nets)
    initial = [value_of(op, name) for name in carried]
    kept: list[tuple[str, str]] = []

    def step(inside: Op, states: list[Value], _: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        for name, value in zip(carried, states, strict=True):
            inside.scope.bind(name, value)
        for part in bodies:
            inside.lower_body(part.net, inside.scope, part.argument)
        kept[:] = changing_rows(op, stacks, inside, states)
        rows = [op.lowering.kept_rows[stack][blob].value for stack, blob in kept]
        again = condition_of(inside, value_of(inside, op.view.inputs[0]))
        rows += [value_of(inside, name) for name in last]
        return [again, *(value_of(inside, name) for name in carried)], rows

    finals, stacked = _settled_loop(op, None, condition_of(op, op.input(0)), carried, initial, step)
    for name, value in zip(carried, finals, strict=True):
        op.scope.bind(name, value)
    for (stack, blob), value in zip(kept, stacked, strict=False):
        op.lowering.kept_rows[stack][blob] = KeptRows(value, constant=False)
    for name, value in zip(last, stacked[len(kept) :], strict=True):
        # Without iterations there is no last value, and onnxruntime's Gather fails.
        op.scope.bind(name, op.emit("Gather", value, op.const(-1, np.int64), axis=0))


@family.converts("ONNXWhile", expects={0: TensorInfo(ir.DataType.INT64, ()), 1: TensorInfo(ir.DataType.BOOL, ())})
def onnx_while(op: Op) -> tuple[Value, ...]:
    """ONNXWhile(trip_count, condition, *initial; body, has_trip_count=0, has_cond=0, num_loop_carried_deps=-1, ...).

    The outputs are the final carried values and the stacked ones; the remaining arguments are save_scopes=0 and
    disable_scopes=0, of which one may be set. The operands correspond to those of ONNX's Loop. Stacked values must have
    one row per iteration, as Caffe2 concatenates them without a new dim. For a loop of no iterations Caffe2 leaves
    int32 there; here the element type is that of the body.
    """
    control = OnnxWhile(op.view)
    if op.args.flag("save_scopes", default=False) and control.disables_scopes:
        op.unsupported("save_scopes and disable_scopes must not both be set", code="invalid-argument")
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
        going, *after = (value_of(inside, name) for name in results)
        again = reshape(inside, cast(inside, going, ir.DataType.BOOL), [1])
        rows = [_one_row(inside, value) for value in after[len(initial) :]]
        kept = [again, *after[: len(initial)]]
        return ([again, *kept] if has_condition else kept), rows

    names = results[: 1 + len(initial)]
    trips, going = op.input(0) if has_trips else None, first if has_condition else None
    finals, stacked = _settled_loop(op, trips, going, names, [first, *initial], step)
    return (*finals[1:], *stacked)


def _refuse_outer_changes(op: Op, body: NetDef, carried: Sequence[str]) -> None:
    """Refuse a body without scopes that writes outer blobs which the loop does not carry."""
    for name in written_blobs(op, body):
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


def _settled_loop(
    op: Op, trips: Value | None, go: Value | None, names: Sequence[str], initial: Sequence[Value], step: LoopStep
) -> tuple[list[Value], list[Value]]:
    """Emit a Loop whose states have the shapes that hold in every iteration; dims that change are unknown.

    The body is emitted again, with the shapes that the previous attempt yielded, until these no longer change.
    """
    shapes = [value.shape for value in initial]
    varying = [False] * len(shapes)
    seen: list[Value] = []

    def watched(inside: Op, states: list[Value], rows: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        for state in compress(states, varying):
            mark_varying_rank(state)
        after, stacked = step(inside, states, rows)
        seen[:] = after[1:] if go is not None else after
        return after, stacked

    while True:
        mark = len(op.scope.nodes)
        finals, stacked = loop(op, trips, go, initial, watched, shapes)
        for name, value, start in zip(names, seen, initial, strict=True):
            require_same_type(op, name, value, start)
        settled = [common_shape(shape, value.shape) for shape, value in zip(shapes, seen, strict=True)]
        if settled == shapes:
            return finals, stacked
        del op.scope.nodes[mark:]
        varying = [known or ranks_differ(*pair) for known, *pair in zip(varying, initial, seen, strict=True)]
        shapes = settled


def _read_after(op: Op, names: Iterable[str], nets: Sequence[NetDef]) -> list[str]:
    """Return the blobs that only the loop writes and that are read after it: without a value unless the loop runs."""
    reads = op.lowering.reads.forward  # blobs of gradients have one name in several loops
    read = [name for name in names if reads[name] > 0 and not op.scope.is_opaque(name)]
    outside = read_outside(op, read, nets) if read else set()
    return [name for name in read if name in outside]
