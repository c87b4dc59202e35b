"""Rename the outputs of gradient operators."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence

from caffe2_bridge.control import BodyScope, Runs, control_of
from caffe2_bridge.gradients.forward import GradientError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def rename_output(group: Sequence[OperatorDef], at: int, output: int, new: str) -> None:
    """Rename the output ``output`` of ``group[at]``. The operators are changed in place.

    ``group`` are the operators of one gradient. Earlier operators of the group may write the same blob, and are renamed
    too; a read before the first write in the group refers to another blob of that name, and is not renamed.
    """
    name = group[at].output[output]
    written = False
    for index, op in enumerate(group):
        if written:
            _rename_reads(op, name, new)
        if index == at:
            _rename_one(op, output, new)
            written = True
        elif index < at and name in op.output:
            _rename(op, name, new)
            written = True


def disambiguate_grad_if_op_output(grad_op: OperatorDef, idx: int, new_grad_output: str) -> None:
    """Rename an output of the gradient of an If, including in its branches. ``grad_op`` is changed in place.

    Raises:
        GradientError: the operator is not an If, or does not have output ``idx``.
    """
    if grad_op.type != "If":
        raise GradientError(f"the operator must be the gradient of an If, not {grad_op.type}")
    if not 0 <= idx < len(grad_op.output):
        raise GradientError(f"the gradient of the If has {len(grad_op.output)} outputs: output {idx} does not exist")
    _rename_one(grad_op, idx, new_grad_output)


def _rename(op: OperatorDef, old: str, new: str) -> None:
    for index, name in enumerate(op.output):
        if name == old:
            _rename_one(op, index, new)


def _rename_one(op: OperatorDef, index: int, new: str) -> None:
    old = op.output[index]
    op.output[index] = new
    control = control_of(OpView(op, 0))
    if control is None or control.scope is not BodyScope.SHARED:
        return
    loop = control.runs is Runs.LOOP
    if loop:  # an iteration reads what the previous one has written
        _replace(op.input, old, new)
    for body in (body.net for body in control.bodies.values()):
        written = loop
        for inner in body.op:
            if written:
                _rename_reads(inner, old, new)
            if old in inner.output:
                _rename(inner, old, new)
                written = True


def _rename_reads(op: OperatorDef, old: str, new: str) -> None:
    """Rename a blob where an operator, or a body that runs in the same workspace, finds it."""
    _replace(op.input, old, new)
    control = control_of(OpView(op, 0))
    if control is None or control.scope is not BodyScope.SHARED:
        return
    for body in control.bodies.values():
        for inner in body.net.op:
            _rename_reads(inner, old, new)
            if old in inner.output:
                break


def _replace(names: MutableSequence[str], old: str, new: str) -> None:
    for index, name in enumerate(names):
        if name == old:
            names[index] = new
