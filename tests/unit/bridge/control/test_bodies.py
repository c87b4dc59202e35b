"""Walks over the operators of the nets that operators run."""

from __future__ import annotations

from caffe2_bridge.control import all_operators, if_arguments, inner_operators
from caffe2_bridge.netdef.construct import make_operator
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def of(*ops: OperatorDef) -> NetDef:
    return NetDef(op=ops)


INNER = make_operator("If", ["d"], ["y"], if_arguments(of(OperatorDef(type="Relu"))))
NET = of(
    make_operator("If", ["c"], ["y"], if_arguments(of(INNER, OperatorDef(type="Add")), of(OperatorDef(type="Mul")))),
    OperatorDef(type="Copy"),
)


def test_operators_of_bodies_follow_the_operator_that_runs_them() -> None:
    assert [op.type for op in all_operators(NetView(NET))] == ["If", "If", "Relu", "Add", "Mul", "Copy"]


def test_inner_operators_are_those_of_the_bodies_alone() -> None:
    first, last = NetView(NET).ops
    assert [op.type for op in inner_operators(first)] == ["If", "Relu", "Add", "Mul"]
    assert list(inner_operators(last)) == []
