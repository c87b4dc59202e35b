"""Operands that are parameters, and blobs that are data."""

from __future__ import annotations

import pytest
from conformance.recording import operator

from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.operators.parameters import data_blobs, is_parameter_operand
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


@pytest.mark.parametrize(
    ("op", "parameters"),
    [
        (operator("Conv", ["x", "w", "b"], ["y"]), ["w", "b"]),
        (operator("SpatialBN", ["x", "s", "b", "m", "v"], ["y"]), ["s", "b", "m", "v"]),
        (operator("Mul", ["x", "w"], ["y"], broadcast=1), ["w"]),
        (operator("Mul", ["x", "w"], ["y"]), []),
        (operator("SparseLengthsSum", ["w", "i", "l"], ["y"]), ["w"]),
        (operator("DeformConv", ["x", "offsets", "w", "b"], ["y"]), ["w", "b"]),
        (operator("Relu", ["x"], ["y"]), []),
    ],
)
def test_parameters_by_their_index(op: OperatorDef, parameters: list[str]) -> None:
    view = OpView(op, 0)
    assert [name for i, name in enumerate(view.inputs) if is_parameter_operand(view, i)] == parameters


def test_data_is_followed_to_where_it_is_read() -> None:
    ops = [
        operator("Sub", ["x", "mean"], ["a"], broadcast=1),
        operator("Cast", ["a"], ["a"]),
        operator("Conv", ["a", "w"], ["y"]),
        operator("Exp", ["other"], ["z"]),
    ]
    assert data_blobs(NetView(NetDef(op=ops)).ops) == {"x", "a"}
