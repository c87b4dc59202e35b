"""Differentiate one operator with the rule of its type."""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.gradients.forward import BlobGradient, Forward, GradientError, OpGradient
from caffe2_bridge.gradients.ops import rules
from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef


def get_gradient_for_op(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """Return the operators that compute the gradients of an operator's inputs, as real Caffe2's gradient registry does.

    Args:
        op: the operator, which is not changed.
        g_output: the gradient of each output: a name, a ``SparseGradient``, or None.

    Returns:
        The gradient operators, and the gradient of each input: a name, a ``SparseGradient``, or None.

    Raises:
        GradientError: the type has no gradient, the operator lacks an argument or operand that its gradient needs, or
            ``g_output`` lacks a gradient that it needs.
    """
    rule = rules().get(op.type)
    if rule is None:
        raise GradientError(f"operator {op.type} has no gradient")
    if len(g_output) != len(op.output):
        raise GradientError(
            f"g_output must hold {len(op.output)} gradients, one for each output of {op.type}, not {len(g_output)}"
        )
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
    """Differentiate a Do operator. Raises GradientError for another type, and as ``get_gradient_for_op`` does."""
    return _gradient_of("Do", op, g_output)


def gen_if_gradient(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """Differentiate an If operator. Raises GradientError for another type, and as ``get_gradient_for_op`` does."""
    return _gradient_of("If", op, g_output)


def gen_while_gradient(op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    """Differentiate a While operator. Raises GradientError for another type, and as ``get_gradient_for_op`` does."""
    return _gradient_of("While", op, g_output)


def _gradient_of(op_type: str, op: OperatorDef, g_output: Sequence[BlobGradient]) -> OpGradient:
    if op.type != op_type:
        raise GradientError(f"the operator must be {op_type}, not {op.type or 'one without a type'}")
    return get_gradient_for_op(op, g_output)
