"""Renames of what gradient operators write."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

from caffe2_bridge.control import Runs, Scope, control_of
from caffe2_bridge.gradients.forward import GradientError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def rename_output(group: Sequence[OperatorDef], at: int, output: int, new: str) -> None:
    """Rename the blob that ``group[at]`` writes as its output ``output``. The operators are changed in place.

    ``group`` are the operators of one gradient. Those before ``at`` may have written earlier states of the blob, which
    are renamed as well; what the group reads before it writes the blob is another blob of that name.
    """
    name = group[at].output[output]
    written = False
    for index, op in enumerate(group):
        if written:
            _replace(op.input, name, new)
        if index == at:
            _rename_one(op, output, new)
            written = True
        elif index < at and name in op.output:
            _rename(op, name, new)
            written = True


def disambiguate_grad_if_op_output(grad_op: OperatorDef, idx: int, new_grad_output: str) -> None:
    """Rename an output of the gradient of an If, in its branches too. ``grad_op`` is changed in place.

    Raises GradientError where the operator is no If, or has no such output.
    """
    if grad_op.type != "If":
        raise GradientError(f"expected the gradient of an If, got {grad_op.type}")
    if not 0 <= idx < len(grad_op.output):
        raise GradientError(f"the gradient of the If has {len(grad_op.output)} outputs and no output {idx}")
    _rename_one(grad_op, idx, new_grad_output)


def _rename(op: OperatorDef, old: str, new: str) -> None:
    for index, name in enumerate(op.output):
        if name == old:
            _rename_one(op, index, new)


def _rename_one(op: OperatorDef, index: int, new: str) -> None:
    old = op.output[index]
    op.output[index] = new
    control = control_of(OpView(op, 0))
    if control is None or control.scope is not Scope.SHARED:
        return
    loop = control.runs is Runs.LOOP
    if loop:  # an iteration goes on from what the one before has written
        _replace(op.input, old, new)
    for body in (body.net for body in control.bodies.values()):
        written = loop
        for inner in body.op:
            if written:
                _replace(inner.input, old, new)
            if old in inner.output:
                _rename(inner, old, new)
                written = True


def _replace(names: MutableSequence[str], old: str, new: str) -> None:
    for index, name in enumerate(names):
        if name == old:
            names[index] = new
