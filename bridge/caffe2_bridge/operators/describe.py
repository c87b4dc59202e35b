"""Look up the signature of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.operators import detection, nn, sequence, tensor
from caffe2_bridge.operators.signature import Shape, Signature, Text, parse

_TABLES: Final = (nn.SIGNATURES, tensor.SIGNATURES, sequence.SIGNATURES, detection.SIGNATURES)
_BY_TYPE: Final[Mapping[str, Text]] = {
    op_type: text for table in _TABLES for types, text in table.items() for op_type in types.split()
}
_ARGUMENT: Final = re.compile(r"([*~][\w']+)?\{(\w+)=(-?\d+)\}")


def is_described(op_type: str) -> bool:
    """Whether operators of a type have a signature."""
    return op_type in _BY_TYPE


def signature_of(op: OpView, shapes: Sequence[Shape | None] = ()) -> Signature | None:
    """The signature of an operator; None if its type is not described.

    Args:
        op: the operator.
        shapes: those of its inputs and outputs; some signatures are written for the ranks that are known.

    Raises ArgumentError if an argument that it depends on is of another kind.
    """
    text = _BY_TYPE.get(op.type)
    if text is None or op.proto.domain:
        return None
    if not isinstance(text, str):
        known = [*shapes, *[None] * (len(op.inputs) + len(op.outputs) - len(shapes))]
        text = text(op, known)

    def argument(found: re.Match[str]) -> str:
        group, name, default = found.groups()
        value = op.args.integer(name, default=int(default))
        return f"{group}{{{value}}}" if group else str(max(value, 1))

    is_last = "^" in text and op.args.text("order", default="NCHW") == "NHWC"
    return parse(_ARGUMENT.sub(argument, text), is_last=is_last)
