"""Add If and While to a net, with bodies that run in workspaces of their own.

Each body becomes a Do operator. It binds the outer blobs that the body reads or writes, and keeps all others in a
workspace, so that the gradient of the body can read them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob
from caffe2_bridge.control import do_arguments, if_arguments, while_arguments
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto
from caffe2_bridge.ssa import get_external_blob_names


@dataclass(frozen=True, slots=True)
class _Body:
    """A net with one Do, the outer blobs that it reads and writes, and the blob of its workspaces."""

    net: NetDef
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    workspace: Blob


def add_if_op(
    if_net: Net,
    cond_blob: str,
    then_net: Net,
    else_net: Net | None = None,
    lexical_scope: Collection[str] | None = None,
) -> tuple[Blob, ...]:
    """Add an If to a net.

    A name in a branch refers to the outer blob of that name if it is in the scope, and is local otherwise.

    Args:
        if_net: the net that the operator is added to.
        cond_blob: the condition, bool with one element.
        then_net: the branch for true; built with ``if_net.child``.
        else_net: the branch for false; None for no operation.
        lexical_scope: names of the outer blobs that the branches can access; by default those of ``if_net`` and of the
            nets around it.

    Returns:
        The outer blobs that a branch writes, in the order in which they are first written.

    Raises:
        BridgeError: a branch reads a blob that is neither local nor in the scope.
    """
    scope = if_net.lexical_scope if lexical_scope is None else lexical_scope
    condition = if_net.blob(cond_blob)
    bodies = [_body(if_net, then_net, scope, "do_then_net", "workspace_if_then")]
    if else_net is not None:
        bodies.append(_body(if_net, else_net, scope, "do_else_net", "workspace_if_else"))
    return _add_control(if_net, "If", condition, bodies, if_arguments(*(body.net for body in bodies)))


def add_while_op(
    while_net: Net,
    cond_blob: str,
    loop_body_net: Net,
    condition_body_net: Net | None = None,
    lexical_scope: Collection[str] | None = None,
) -> tuple[Blob, ...]:
    """Add a While to a net. The scope of names is that of :func:`add_if_op`.

    Args:
        while_net: the net that the operator is added to.
        cond_blob: the condition, bool with one element: the loop ends when it is false.
        loop_body_net: the body of an iteration; built with ``while_net.child``.
        condition_body_net: computes ``cond_blob`` before each iteration. If it is None, the body must write it.
        lexical_scope: names of the outer blobs that the bodies can access; see ``add_if_op``.

    Returns:
        The outer blobs that the bodies write, in the order in which they are first written.

    Raises:
        BuildError: the condition net does not write the condition.
        BridgeError: a body reads a blob that is neither local nor in the scope.
    """
    scope = while_net.lexical_scope if lexical_scope is None else lexical_scope
    condition = while_net.blob(cond_blob)
    # If the loop ends before its first iteration, its outputs keep their previous values: they are inputs too.
    bodies = [_body(while_net, loop_body_net, scope, "do_loop_body_net", "workspace_loop_body", loops=True)]
    if condition_body_net is not None:
        if not any(condition in op.output for op in condition_body_net.proto.op):
            raise BuildError(f"net {condition_body_net.name!r} must write the condition {str(condition)!r}")
        visible = dict.fromkeys((*scope, condition))
        bodies.append(_body(while_net, condition_body_net, visible, "do_loop_condition_net", "workspace_loop_cond"))
        if condition not in scope:
            while_net.op("ConstantFill", (), condition, dtype=TensorProto.BOOL, value=False)
    return _add_control(while_net, "While", condition, bodies, while_arguments(*(body.net for body in bodies)))


def _body(
    outer: Net, body: Net, scope: Collection[str], name: str, workspace_name: str, *, loops: bool = False
) -> _Body:
    read, written = (dict.fromkeys(names) for names in get_external_blob_names(body.proto, scope))
    if loops:
        read |= written
    workspace = outer.unique_name(f"{outer.name}/{workspace_name}")
    wrapper = Net(name)
    wrapper.op(
        "Do",
        [Blob(blob) for blob in (*read, workspace)],
        [Blob(blob) for blob in (*written, workspace)],
        **do_arguments(
            body.proto, {blob: blob for blob in (*read, *written)}, [*read], [*written], copy_external_blobs=loops
        ),
    )
    wrapper.add_external_output(*(Blob(blob) for blob in (*written, workspace)))
    return _Body(wrapper.proto, tuple(read), tuple(written), workspace)


def _add_control(
    net: Net, kind: str, condition: Blob, bodies: Sequence[_Body], arguments: Mapping[str, NetDef]
) -> tuple[Blob, ...]:
    read = dict.fromkeys(blob for body in bodies for blob in body.inputs)
    written = tuple(Blob(blob) for blob in dict.fromkeys(blob for body in bodies for blob in body.outputs))
    workspaces = [body.workspace for body in bodies]
    for workspace in workspaces:
        net.op("CreateScope", (), (workspace,))
    net.op(
        kind,
        (condition, *map(Blob, read), *workspaces),
        (*written, *workspaces),
        **arguments,
    )
    return written
