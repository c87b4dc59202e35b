"""The table of operators with bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from caffe2_bridge.control.branch import If
from caffe2_bridge.control.description import ControlOperator
from caffe2_bridge.control.do import Do
from caffe2_bridge.control.onnx_while import OnnxWhile
from caffe2_bridge.control.recurrent import RecurrentNetwork
from caffe2_bridge.control.recurrent_gradient import RecurrentNetworkGradient
from caffe2_bridge.control.while_loop import While
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, OperatorDef

_OPERATORS: Final[tuple[type[ControlOperator], ...]] = (
    If,
    While,
    Do,
    OnnxWhile,
    RecurrentNetwork,
    RecurrentNetworkGradient,
)
_BY_TYPE: Final = {kind: operator for operator in _OPERATORS for kind in operator.types}
CONTROL_TYPES: Final = frozenset(_BY_TYPE)


def is_control(op: OperatorDef) -> bool:
    """Whether an operator is one of Caffe2's operators with bodies."""
    return op.type in _BY_TYPE and not op.domain


def control_class(op: OperatorDef) -> type[ControlOperator] | None:
    """Return the class that reads an operator; None where it is not one with bodies."""
    return None if op.domain else _BY_TYPE.get(op.type)


def control_of(op: OpView) -> ControlOperator | None:
    """Return the view of an operator with bodies; None of any other. It reads arguments when they are asked for."""
    operator = control_class(op.proto)
    return None if operator is None else operator(op)


def body_arguments(op: OperatorDef) -> Iterator[Argument]:
    """Yield the arguments of an operator that hold its bodies, as nets or as text."""
    operator = control_class(op)
    if operator is not None:
        yield from (arg for arg in op.arg if arg.name in operator.arguments)
