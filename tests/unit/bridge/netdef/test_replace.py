"""Replacing the operators of nets, also by the nets' own."""

from __future__ import annotations

from caffe2_bridge.netdef.replace import set_operators, with_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

TYPES = ("Relu", "Tanh", "Exp")


def net() -> NetDef:
    return NetDef(name="n", op=[OperatorDef(type=name, input=["x" * 100]) for name in TYPES])


def test_operators_are_replaced_by_some_of_themselves_and_others() -> None:
    changed = net()
    last = changed.op[-1]
    set_operators(changed, (op for op in (last, OperatorDef(type="Copy"), changed.op[0], last)))
    assert [op.type for op in changed.op] == ["Exp", "Copy", "Relu", "Exp"]
    changed.op[0].input[0] = "y"
    assert [op.input[0] for op in changed.op if op.input] == ["y", "x" * 100, "x" * 100]


def test_a_net_with_other_operators_is_a_copy() -> None:
    given = net()
    assert with_operators(given, reversed(given.op)) == NetDef(name="n", op=list(reversed(given.op)))
    assert given == net()
