"""What a Do operator binds, and what the gradients of control flow share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.control import Do
from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.operator_maker import copy_operator, make_operator
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

INNER_GRAD: Final = "/_DO_OPERATOR_INNER_GRAD_"
INNER_OUTER: Final = "/_DO_OPERATOR_INNER_OUTER_"
INNER_COPY: Final = "/_DO_OPERATOR_INNER_GRAD_COPY_"


@dataclass(frozen=True, slots=True)
class DoBinding:
    """A Do operator: its net, its operands without the stack of workspaces, and the inner name of each."""

    op: OperatorDef
    net: NetDef
    inputs: list[str]
    outputs: list[str]
    workspace: str
    inner: dict[str, str]
    copies_external_blobs: bool
    reuses_workspace: bool

    @classmethod
    def of(cls, op: OperatorDef) -> DoBinding:
        """Read an operator. Raises GradientError where it binds other than real Caffe2 allows."""
        if op.type != "Do":
            raise GradientError(f"expected a Do, got {op.type}")
        do = Do(OpView(op, 0))
        try:
            bindings, net = do.bindings, do.net
            copies, reuses = do.copies_external_blobs, do.reuses_workspace
        except ArgumentError as error:
            raise GradientError(f"Do: {error}") from None
        inputs, outputs = list(op.input[:-1]), list(op.output[:-1])
        inner = {outer: name for name, outer in bindings.items()}
        return cls(op, net, inputs, outputs, do.stack, inner, copies, reuses)


def dedupe_g_output(op: OperatorDef, g_output: Sequence[str | None]) -> tuple[list[OperatorDef], list[str | None]]:
    """Copy gradients so that no two outputs have the same: a Do binds an outer blob to one inner blob only.

    Args:
        op: the operator.
        g_output: for each of its outputs the name of its gradient, or None.

    Returns:
        The Copy operators, and the gradients with those that occur again replaced by their copies.

    Raises GradientError where the numbers of outputs and gradients differ.
    """
    if len(g_output) != len(op.output):
        raise GradientError(f"{op.type} has {len(op.output)} outputs, but {len(g_output)} gradients are given")
    copies: list[OperatorDef] = []
    names: dict[str, str] = {}
    result: list[str | None] = []
    for output, gradient in zip(op.output, g_output, strict=True):
        if gradient is None:
            result.append(None)
            continue
        if output not in names:
            name = gradient
            if gradient in names.values():
                name = f"{output}_{gradient}_DEDUP"
                copies.append(copy_operator(gradient, name))
            names[output] = name
        result.append(names[output])
    return copies, result


def dense_gradients(op: OperatorDef, g_output: Sequence[BlobGradient]) -> list[str | None]:
    """Return the dense gradients of the outputs. Raises GradientError where one is sparse, or none is given."""
    result: list[str | None] = []
    for name, gradient in zip(op.output, g_output, strict=True):
        if isinstance(gradient, SparseGradient):
            raise GradientError(f"the gradient of output {name!r} is sparse; a dense one is needed")
        result.append(gradient)
    if not any(result):
        raise GradientError("no output has a gradient")
    return result


def zeros(like: str, output: str) -> OperatorDef:
    """Return an operator that fills a blob with zeros in the shape of another."""
    op = make_operator("ConstantFill", [like], [output], value=0.0)
    op.ClearField("name")
    return op


def gradient_net(net: NetDef, operators: Sequence[OperatorDef], suffix: str = "_grad") -> NetDef:
    """Return a body for a gradient. Its name differs from the forward body's: a workspace has one net of a name."""
    result = NetDef()
    result.CopyFrom(net)
    result.name += suffix
    for field in ("op", "external_input", "external_output"):
        result.ClearField(field)
    result.op.extend(operators)
    return result


def gradient_op(op: OperatorDef, inputs: Sequence[str], outputs: Sequence[str]) -> OperatorDef:
    """Return the gradient of a control operator, arguments to be added: its own type, name, engine and device."""
    result = OperatorDef()
    result.CopyFrom(op)
    if result.name:
        result.name += "_grad"
    for field in ("arg", "control_input", "input", "output"):
        result.ClearField(field)
    result.input.extend(inputs)
    result.output.extend(outputs)
    result.is_gradient_op = True
    return result
