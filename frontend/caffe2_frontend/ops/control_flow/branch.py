"""If and AsyncIf as ONNX's If.

Branches run in the workspace around them: they see every blob, and every blob that they write can be read after them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caffe2_bridge.control import If
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.emit import int8_values
from caffe2_frontend.emit.constant_evaluation import known_values
from caffe2_frontend.emit.subgraphs import emit_branches
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.control_flow.bodies import (
    CONDITION,
    bound_outputs,
    condition_of,
    read_outside,
    require_same_type,
    value_of,
)
from caffe2_frontend.ops.control_flow.workspaces import is_depth, with_sequences

family = Family("control")


@family.converts("If", "AsyncIf", expects=CONDITION)
@with_sequences
def conditional(op: Op) -> tuple[Value | None, ...]:
    """If | AsyncIf(condition, *inputs; then_net[, else_net]) -> outputs.

    Blobs that only one branch writes keep their previous value in the other. Of a condition that is known, the branch
    that runs is inlined: the operands of the other one may have shapes that do not fit, as a net may choose by them.
    """
    condition = condition_of(op, op.input(0))
    control = If(op.view)
    nets = [body.net for body in control.bodies.values()]
    known = known_values(op, condition)
    if known is not None and known.size == 1:
        argument = control.taken(condition=bool(known.all()))
        if argument in control.bodies:
            op.lower_body(control.bodies[argument].net, op.scope, argument)
        return bound_outputs(op)
    sides = []
    for argument in control.arguments:
        inside = op.inside(op.scope.child())
        if argument in control.bodies:
            op.lower_body(control.bodies[argument].net, inside.scope, argument)
        sides.append(inside)
    changed = _changed(op, sides, nets)
    pairs = [(inside, [value_of(inside, name) for name in changed]) for inside in sides]
    for name, a, b in zip(changed, pairs[0][1], pairs[1][1], strict=True):
        require_same_type(op, name, a, b)
    chosen = emit_branches(op, condition, pairs) if changed else []
    for name, value, a, b in zip(changed, chosen, pairs[0][1], pairs[1][1], strict=True):
        kind = int8_values.find_quantization(a)
        if kind is not None and kind == int8_values.find_quantization(b):
            int8_values.mark_quantized(value, kind)
        op.scope.bind(name, value)
    return bound_outputs(op)


def _changed(op: Op, sides: Sequence[Op], nets: Sequence[NetDef]) -> list[str]:
    """Return the tensors that a branch writes; blobs that are no tensors are bound around the branches."""
    changed = []
    names = dict.fromkeys(name for inside in sides for name in inside.scope.blobs)
    in_one = [name for name in names if None in (inside.scope.find(name) for inside in sides)]
    read = read_outside(op, in_one, nets) if in_one else set()
    for name in names:
        values = [inside.scope.find(name) for inside in sides]
        if any(inside.scope.is_opaque(name) for inside in sides):
            op.scope.bind_object(name, None)
        elif None not in values:
            changed.append(name)
        elif any(values) and _is_read_by_gradients(op, name):
            _fill_missing(sides, name)
            changed.append(name)
        elif any(values) and name in read:
            op.unsupported(f"{name!r} is written in one branch only, and has no value before", code="undefined-blob")
    return changed


def _is_read_by_gradients(op: Op, name: str) -> bool:
    """Whether gradients alone read a blob outside: they take the same branch, and so find a value."""
    return op.lowering.reads.counts[name] > op.lowering.reads.forward[name] or is_depth(name)


def _fill_missing(sides: Sequence[Op], name: str) -> None:
    """Give a blob that one branch does not write an empty value of the same rank there; nothing reads it."""
    (like,) = (value for inside in sides if (value := inside.scope.find(name)) is not None)
    rank = 1 if like.shape is None else len(like.shape)
    for inside in sides:
        if inside.scope.find(name) is None:
            inside.scope.bind(name, inside.const(np.zeros((0,) * rank), like))
