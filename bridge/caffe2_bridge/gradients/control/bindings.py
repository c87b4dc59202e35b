"""What a Do operator binds, and what the makers of its gradient and of those around it share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.gradients.forward import BlobGradient, GradientError, SparseGradient
from caffe2_bridge.gradients.operators import copy_operator, make_operator
from caffe2_bridge.netdef.views import Args, ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

INNER_GRAD: Final = "/_DO_OPERATOR_INNER_GRAD_"
INNER_OUTER: Final = "/_DO_OPERATOR_INNER_OUTER_"
INNER_COPY: Final = "/_DO_OPERATOR_INNER_GRAD_COPY_"


@dataclass(frozen=True, slots=True)
class DoBinding:
    """A Do operator: its net, its operands without the workspace, and the inner name of each."""

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
        try:
            args = Args(op.arg)
            net = args.net("net")
            inner, places = args.texts("inner_blobs", default=()), args.integers("outer_blobs_idx", default=())
            copies = args.flag("copy_external_blobs", default=False)
            reuses = args.flag("reuse_workspace", default=False)
        except ArgumentError as error:
            raise GradientError(f"Do: {error}") from None
        assert net is not None  # the argument is required
        inputs, outputs = list(op.input), list(op.output)
        if not inputs or not outputs or inputs[-1] != outputs[-1]:
            raise GradientError("Do: the last input and the last output are not one workspace blob")
        workspace = inputs[-1]
        inputs, outputs = inputs[:-1], outputs[:-1]
        for what, names in (("inner_blobs", inner), ("inputs", inputs), ("outputs", outputs)):
            if len(set(names)) < len(names):
                raise GradientError(f"Do: {what} name a blob twice")
        outer = [*inputs, *outputs]
        if len(inner) != len(places) or not all(0 <= place < len(outer) for place in places):
            raise GradientError("Do: inner_blobs and outer_blobs_idx do not fit to the operands")
        bound = [outer[place] for place in places]
        if len(set(bound)) < len(bound) or set(bound) != set(outer):
            raise GradientError("Do: inner_blobs and outer_blobs_idx do not bind every operand once")
        return cls(op, net, inputs, outputs, workspace, dict(zip(bound, inner, strict=True)), copies, reuses)


def dedupe_g_output(op: OperatorDef, g_output: Sequence[str | None]) -> tuple[list[OperatorDef], list[str | None]]:
    """Copies, so that no two outputs have one gradient: a Do binds an outer blob to one inner blob only.

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
    """The gradients of the outputs. Raises GradientError where one is sparse, or none is given."""
    result: list[str | None] = []
    for name, gradient in zip(op.output, g_output, strict=True):
        if isinstance(gradient, SparseGradient):
            raise GradientError(f"the gradient of output {name!r} is sparse; a dense one is needed")
        result.append(gradient)
    if not any(result):
        raise GradientError("no output has a gradient")
    return result


def zeros(like: str, output: str) -> OperatorDef:
    """An operator that fills a blob with zeros in the shape of another."""
    op = make_operator("ConstantFill", [like], [output], value=0.0)
    op.ClearField("name")
    return op


def gradient_net(net: NetDef, operators: Sequence[OperatorDef], suffix: str = "_grad") -> NetDef:
    """A body for a gradient. Its name differs from the forward body's: in one workspace a name stands for one net."""
    result = NetDef()
    result.CopyFrom(net)
    result.name += suffix
    for field in ("op", "external_input", "external_output"):
        result.ClearField(field)
    result.op.extend(operators)
    return result


def gradient_op(op: OperatorDef, inputs: Sequence[str], outputs: Sequence[str]) -> OperatorDef:
    """The gradient of a control operator, arguments to be added: its own type, name, engine and device."""
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
