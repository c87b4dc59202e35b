"""The gradient of one operator."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.gradients.forward import BlobGradient, Forward, GradientError, OpGradient
from caffe2_bridge.gradients.ops import rules
from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def get_gradient_for_op(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """The operators that compute the gradients of an operator's inputs, as real Caffe2's gradient registry gives them.

    Args:
        op: the operator, which is left as it is.
        g_output: for each output the name of its gradient, a ``SparseGradient``, or None.

    Returns:
        The gradient operators, and for each input the name of its gradient, a ``SparseGradient``, or None.

    Raises GradientError where the type has no gradient, the operator lacks what its gradient needs, or a gradient that
    it needs is not in ``g_output``.
    """
    rule = rules().get(op.type)
    if rule is None:
        raise GradientError(f"operator {op.type} has no gradient")
    if len(g_output) != len(op.output):
        raise GradientError(f"operator {op.type} has {len(op.output)} outputs, but {len(g_output)} gradients are given")
    forward = Forward(op, g_output, get_gradient_for_op)
    try:
        rule.make(forward)
    except ArgumentError as error:
        raise forward.error(str(error)) from None
    for gradient in forward.operators:
        if rule.copies_arguments:
            gradient.arg.extend(op.arg)
        if rule.copies_all:
            if op.HasField("device_option"):
                gradient.device_option.CopyFrom(op.device_option)
            if op.HasField("engine"):
                gradient.engine = op.engine
    return OpGradient(forward.operators, forward.g_input)


def gen_do_gradient(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """The gradient of a Do operator. Raises GradientError where it is none, or as ``get_gradient_for_op`` does."""
    return _gradient_of("Do", op, g_output)


def gen_if_gradient(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """The gradient of an If operator. Raises GradientError where it is none, or as ``get_gradient_for_op`` does."""
    return _gradient_of("If", op, g_output)


def gen_while_gradient(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """The gradient of a While operator. Raises GradientError where it is none, or as ``get_gradient_for_op`` does."""
    return _gradient_of("While", op, g_output)


def _gradient_of(op_type: str, op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    if op.type != op_type:
        raise GradientError(f"expected the operator {op_type}, got {op.type or 'one without a type'}")
    return get_gradient_for_op(op, g_output)
