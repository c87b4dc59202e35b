"""Look up the signature of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators import detection, nn, sequence, tensor
from caffe2_bridge.operators.signature import Differs, Shape, Signature, Text, parse
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_TABLES: Final = (nn.SIGNATURES, tensor.SIGNATURES, sequence.SIGNATURES, detection.SIGNATURES)
_BY_TYPE: Final[Mapping[str, Text]] = {
    op_type: text for table in _TABLES for types, text in table.items() for op_type in types.split()
}
# Functions may look at as many shapes, whatever operands there are.
_FEWEST: Final = 3
_ARGUMENT: Final = re.compile(r"([*~][\w']+)?\{(\w+)=(-?\d+)\}")


def is_described(op_type: str) -> bool:
    """Whether operators of a type have a signature."""
    return op_type in _BY_TYPE


def _plain(op_type: str) -> Signature | None:
    """Return the signature of an operator of a type without operands and arguments."""
    return _described(op_type) if is_described(op_type) else None


@cache  # of types that are described: a net may have any name of any size
def _described(op_type: str) -> Signature | None:
    return signature_of(OpView(OperatorDef(type=op_type), 0))


def is_parameter(op_type: str, index: int) -> bool:
    """Whether an operand, by index, is a parameter of operators of a type."""
    signature = _plain(op_type)
    return signature is not None and signature.is_parameter(index)


def has_parameters(op_type: str) -> bool:
    """Whether operators of a type have parameters."""
    signature = _plain(op_type)
    return signature is not None and any(operand.is_parameter for operand in signature.inputs)


def signature_text(op: OpView, shapes: Sequence[Shape | None] = ()) -> str | None:
    """Return the signature of an operator as it is written; see :func:`signature_of`."""
    text = _BY_TYPE.get(op.type)
    if text is None or isinstance(text, str):
        return text
    count = max(len(op.inputs) + len(op.outputs), _FEWEST)
    return text(op, [*shapes, *[None] * (count - len(shapes))])


def described_types() -> Sequence[str]:
    """Return the operator types that have a signature."""
    return sorted(_BY_TYPE)


def signature_of(op: OpView, shapes: Sequence[Shape | None] = ()) -> Signature | None:
    """Return the signature of an operator; None if its type is not described.

    Args:
        op: the operator.
        shapes: those of its inputs and outputs; some signatures are written for the ranks that are known.

    Raises ArgumentError if an argument that it depends on is of another kind.
    """
    text = None if op.proto.domain else signature_text(op, shapes)
    if text is None:
        return None

    def argument(found: re.Match[str]) -> str:
        group, name, default = found.groups()
        value = op.args.integer(name, default=int(default))
        return f"{group}{{{value}}}" if group else str(max(value, 1))

    is_last = "^" in text and op.args.text("order", default="NCHW") == "NHWC"
    return parse(_ARGUMENT.sub(argument, text), is_last=is_last)


def infer_shapes(
    op: OpView,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None] | None = None,
    *,
    usual: bool = False,
    differs: Differs | None = None,
) -> list[Shape | None]:
    """Infer the shapes of an operator's inputs and outputs from each other.

    Args:
        op: the operator.
        inputs: the shapes that are known; None for an operand of unknown rank, and for an unknown dim.
        outputs: the same of the outputs; by default they are unknown.
        usual: whether what is only usual counts.
        differs: called with two known sizes that the signature equates.

    Returns:
        The shapes of the inputs and outputs, in which everything that is known is kept.

    Raises ArgumentError if an argument of the operator is of another kind.
    """
    count, found = len(inputs), [*inputs, *(outputs or [None] * len(op.outputs))]
    ranks: list[int | None] = []
    while ranks != (ranks := [None if shape is None else len(shape) for shape in found]):
        signature = signature_of(op, found)
        if signature is not None:
            found = signature.infer(found[:count], found[count:], usual=usual, differs=differs)
    return found
