"""Blobs that a net reads as parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from caffe2_bridge.control import all_operators
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.operators.parameters import is_parameter_operand


def parameter_blobs(
    net: NetView, names: Iterable[str], is_parameter: Callable[[OpView, int], bool] = is_parameter_operand
) -> list[str]:
    """Return those of some blobs that operators of a net or of its bodies read as parameters, and never as data."""
    parameters: set[str] = set()
    others: set[str] = set()
    for op in all_operators(net):
        for index, name in enumerate(op.inputs):
            (parameters if _holds(is_parameter, op, index) else others).add(name)
    return [name for name in names if name in parameters and name not in others]


def _holds(is_parameter: Callable[[OpView, int], bool], op: OpView, index: int) -> bool:
    try:
        return is_parameter(op, index)
    except ArgumentError:  # reported when the operator is converted
        return False
