"""CreateScope, Do and HasScope: nets in workspaces of their own, which are inlined."""

from __future__ import annotations

import numpy as np

from caffe2_bridge.control import Do
from caffe2_frontend.emit.shapes import reshape
from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.ops.control_flow import workspaces
from caffe2_frontend.ops.control_flow.bodies import bound_outputs, kept_name, kept_names, kept_reads

family = Family("workspace")


@family.converts("CreateScope")
def create_scope(op: Op) -> tuple[None]:
    """CreateScope() -> scope.

    The scope is a stack of workspaces, not a tensor; the Do operators that use it are inlined. A new stack is empty:
    blobs that an earlier one of this name kept are forgotten.
    """
    for name in op.view.outputs:
        _forget_kept(op, name)
        workspaces.create_stack(op, name)
    return (None,)


def _forget_kept(op: Op, stack: str) -> None:
    """Forget the blobs that the workspace on top of a stack kept."""
    for blob in [blob for blob in op.scope.blobs if blob.startswith(kept_name(stack, ""))]:
        del op.scope.blobs[blob]


@family.converts("HasScope")
def has_scope(op: Op) -> Value:
    """HasScope(scope) -> bool [1]: whether the stack of workspaces holds any."""
    name = op.view.inputs[0]
    depth = op.scope.find(workspaces.depth_name(name))
    if depth is None:
        op.unsupported(f"no operator of the net creates the stack of workspaces {name!r}", code="undefined-blob")
    return reshape(op, op.emit("Greater", depth, op.const(0, np.int64)), [1])


@family.converts("Do")
@workspaces.with_sequences
def do(op: Op) -> tuple[Value | None, ...]:
    """Do(*inputs, scope; net, inner_blobs, outer_blobs_idx, reuse_workspace=0) -> *outputs, scope.

    inner_blobs are bound to the outer blobs at outer_blobs_idx in the concatenation of inputs and outputs. The other
    blobs of the net are kept for a Do on the same scope with reuse_workspace, which runs in the workspace of the last
    one. The gradient of a Do finds those of the last one, and removes them.
    """
    op.args.ignore("copy_external_blobs", "saved_fwd_blobs")
    control = Do(op.view)
    outer = kept = control.bindings
    if control.stack in op.lowering.reads.reused_stacks and not op.view.proto.is_gradient_op:
        kept = {**outer, **kept_names(op, control)}
    body = op.scope.child(sealed=True)
    found = {**kept_reads(control), **kept} if control.reuses_workspace else outer
    for name, outer_name in found.items():
        value = op.scope.find(outer_name)
        if value is not None:
            body.blobs[name] = value
    # ONNX has no counterpart of a Do: its nodes become nodes of the outer graph.
    body.nodes = op.scope.nodes
    workspaces.enter(op, body)
    if op.view.proto.is_gradient_op:
        workspaces.restore(op, control.stack, body)
    (inner,) = control.bodies.values()
    op.lower_body(inner.net, body, inner.argument)
    workspaces.leave(op, body)
    if op.view.proto.is_gradient_op:
        workspaces.pop(op, control.stack)
    elif not control.reuses_workspace:
        _forget_kept(op, control.stack)
        workspaces.push(op, control.stack, body)
    for name, outer_name in kept.items():
        if name in body.blobs:
            op.scope.bind(outer_name, body.blobs[name])
    return bound_outputs(op)
