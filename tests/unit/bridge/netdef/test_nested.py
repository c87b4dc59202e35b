"""Walks over the nets in arguments."""

from __future__ import annotations

from caffe2_bridge.netdef.nested import nets_in, operators_in
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef


def net(name: str, *args: Argument) -> NetDef:
    return NetDef(name=name, op=[OperatorDef(type=name, arg=args)])


DEEP = net("Deep")
OP = OperatorDef(
    type="Outer",
    arg=[
        Argument(name="a", n=net("First", Argument(name="deep", n=DEEP))),
        Argument(name="b", i=1),
        Argument(name="c", nets=[net("Second"), net("Third")]),
    ],
)


def test_nets_of_an_operator_are_in_the_order_of_its_arguments() -> None:
    assert [inner.name for inner in nets_in(OP)] == ["First", "Second", "Third"]


def test_operators_at_any_depth_follow_the_operator_that_holds_them() -> None:
    whole = NetDef(op=[OP, OperatorDef(type="Last")])
    assert [op.type for op in operators_in(whole)] == ["Outer", "First", "Deep", "Second", "Third", "Last"]
