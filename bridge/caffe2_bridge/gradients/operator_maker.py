"""Make operators with the fields that Caffe2's gradient makers set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from caffe2_bridge.netdef.construct import make_argument
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

Value: TypeAlias = int | float | str | NetDef | Sequence[int] | Sequence[str]


def make_operator(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **arguments: Value) -> OperatorDef:
    """Make an operator; the field of each argument follows from the type of its value."""
    # Caffe2 sets the name even if it is empty.
    op = OperatorDef(type=op_type, name="", input=inputs, output=outputs)
    op.arg.extend(make_argument(name, value) for name, value in arguments.items())
    return op


def add_arguments(op: OperatorDef, arguments: Mapping[str, Any]) -> None:
    """Add arguments to an operator."""
    op.arg.extend(make_argument(name, value) for name, value in arguments.items())


def copy_operator(source: str, target: str) -> OperatorDef:
    """Make a Copy without the field ``name``, as Caffe2 writes it in gradients of control flow."""
    return OperatorDef(type="Copy", input=[source], output=[target])
