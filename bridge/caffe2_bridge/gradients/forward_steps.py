"""Run the steps of recurrent nets in nets of gradients: those whose forward operator is in another net.

Real Caffe2 keeps the workspaces of the steps as a blob, ``step_workspaces``, which the gradient operator finds in the
workspace that the forward net ran in. A net that runs elsewhere does not have them. The gradient operator has the
operands and arguments of the forward operator, which can therefore run again, unless it draws random numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from caffe2_bridge.control import RecurrentNetwork, RecurrentNetworkGradient
from caffe2_bridge.diagnostics import Diagnostic, Location, Severity
from caffe2_bridge.init.random_operators import draws_numbers
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.replace import with_operators
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_bridge.ssa import INSERTED


def insert_forward_operators(model: Model) -> Model:
    """Insert the forward operator before each RecurrentNetworkGradient whose step workspaces the net does not make.

    What it outputs is no longer an input of the net. A note in the ``findings`` of the init net names the operators.
    The model itself is not changed, and returned if nothing is missing.
    """
    if model.op_types.isdisjoint(RecurrentNetworkGradient.types):
        return model
    net = NetView(model.predict_net)
    ops: list[OperatorDef] = []
    notes: list[Diagnostic] = []
    made: set[str] = set()
    again: set[str] = set()
    for op in net.ops:
        forward = _missing_forward(op, made | again)
        if forward is not None:
            ops.append(forward)
            notes.append(_note(net, op))
            again.update(_written(forward))
        ops.append(op.proto)
        made.update(_written(op.proto))
    if not notes:
        return model
    result = with_operators(model.predict_net, ops)
    given = [name for name in result.external_input if name not in again]
    del result.external_input[:]
    result.external_input.extend(given)
    init = dataclasses.replace(model.init, findings=(*model.init.findings, *notes))
    return dataclasses.replace(model, predict_net=result, init=init)


def _missing_forward(op: OpView, made: set[str]) -> OperatorDef | None:
    """Return the forward operator of a gradient operator, if the net has not run it, and its steps can run again."""
    if op.type not in RecurrentNetworkGradient.types or op.proto.domain or not op.inputs:
        return None
    try:
        control = RecurrentNetworkGradient(op)
        if control.workspaces in made:
            return None
        forward = control.forward_operator
        if draws_numbers(OpView(forward, op.index)):
            return None
    except ArgumentError:  # which the conversion reports
        return None
    forward.debug_info = INSERTED
    return forward


def _written(op: OperatorDef) -> Iterator[str]:
    yield from op.output
    if op.type in RecurrentNetwork.types and not op.domain:
        yield RecurrentNetwork(OpView(op, 0)).workspaces


def _note(net: NetView, op: OpView) -> Diagnostic:
    reason = (
        f"the net does not make the step workspaces {op.inputs[-1]!r}: the steps run again, from the operands of the "
        "forward operator"
    )
    hint = "to keep what the steps computed, export the forward and the gradient operators as one net"
    return Diagnostic("rerun-steps", reason, Location(net.name, op.index, op.type, op.name), Severity.NOTE, hint)
