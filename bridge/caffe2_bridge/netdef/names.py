"""Check that the names in protobufs are text: proto2 accepts string fields that are not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.netdef.nested import nets_in
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, PlanDef


def require_text(names: Iterable[object], place: str) -> None:
    """Raise NetFormatError if a name is not UTF-8 text; protobuf returns such a name as bytes."""
    for name in names:
        if isinstance(name, bytes):
            raise NetFormatError(f"{place}: the name {name[:40]!r} is not UTF-8 text")


def require_text_in_net(net: NetDef) -> None:
    """Raise NetFormatError if a name in a net, its operators or its sub-nets is not UTF-8 text."""
    require_text((net.name, net.type, *net.external_input, *net.external_output), "net")
    for index, op in enumerate(net.op):
        require_text_in_operator(op, index)
        for inner in nets_in(op):
            require_text_in_net(inner)


def require_text_in_plan(plan: PlanDef) -> None:
    """Raise NetFormatError if a name in a plan, its steps or its nets is not UTF-8 text."""
    require_text((plan.name,), "plan")
    steps = list(plan.execution_step)
    while steps:
        step = steps.pop()
        require_text((step.name, step.should_stop_blob, step.report_net, *step.network), "step of the plan")
        steps += step.substep
    for net in plan.network:
        require_text_in_net(net)


def require_text_in_operator(op: OperatorDef, index: int) -> None:
    """Raise NetFormatError if a name in an operator, excluding its sub-nets, is not UTF-8 text."""
    names = (op.type, op.name, op.engine, op.domain, *op.input, *op.output, *(arg.name for arg in op.arg))
    require_text(names, f"operator {index}")
