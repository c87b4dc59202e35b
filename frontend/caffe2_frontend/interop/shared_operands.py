"""Operands that Caffe2's schemas require or forbid to be one blob, in a net that is not in SSA form yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from caffe2_bridge.control import is_control, nets_run_by
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.schemas import OperatorSchema, operator_schema, refused_in_place, unshared_operands
from caffe2_bridge.ssa import former_indices, numbered
from caffe2_bridge.ssa.effects import OpEffects


def check_shared_operands(net: NetDef, effects: Iterable[OpEffects], indices: Collection[int]) -> list[Diagnostic]:
    """Report operators, also in bodies, that do not write in place where they must, or do where they must not.

    Only the operators of ``net`` whose indices are given are checked; ``effects`` are those of all.
    """
    chosen = frozenset(indices)
    name = net.name or "net"
    return [
        finding
        for index, op, does in zip(former_indices(net), net.op, effects, strict=True)
        if index in chosen and (_breaks_rules(op.type, does) or (op.arg and _may_have_bodies(op)))
        for finding in _of_operator(OpView(op, index), Location(name, index, op.type, op.name))
    ]


def _breaks_rules(op_type: str, op: OpEffects) -> bool:
    """Whether an operator breaks the rules of the schema of its type; those of other domains have none."""
    schema = operator_schema(op_type)
    return schema is not None and bool(
        unshared_operands(schema, op.inputs, op.outputs) or refused_in_place(schema, op.inputs, op.outputs)
    )


def _may_have_bodies(op: OperatorDef) -> bool:
    return is_control(op) or any(arg.HasField("n") for arg in op.arg)


def _of_operator(op: OpView, here: Location) -> Iterator[Diagnostic]:
    schema = None if op.proto.domain else operator_schema(op.type)
    if schema is not None:
        yield from _against_schema(schema, op, here)
    for body, net in nets_run_by(op):
        for index, inner in numbered(NetView(net)):
            yield from _of_operator(inner, here.enter(body, index, inner.type, inner.name))


def _against_schema(schema: OperatorSchema, op: OpView, here: Location) -> Iterator[Diagnostic]:
    for read, written in unshared_operands(schema, op.inputs, op.outputs):
        reason = f"{op.type} updates {read!r}, but lists {written!r} as the output that it writes in place of it"
        yield Diagnostic("not-in-place", reason, here, hint=f"list {read!r} as the output")
    for name in refused_in_place(schema, op.inputs, op.outputs):
        reason = f"{op.type} reads {name!r} and writes it in place, which its schema in Caffe2 does not allow"
        yield Diagnostic("in-place", reason, here, hint="give the output a name of its own")
