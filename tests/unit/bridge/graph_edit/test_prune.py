"""Operators that nothing reads, and the versions of blobs that a part of a net needs and makes."""

from __future__ import annotations

from conformance.recording import operator

from caffe2_bridge.graph_edit.prune import get_sub_graph_external_input_output, remove_dead_end_ops
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def net(*ops: OperatorDef, outputs: tuple[str, ...] = ("y",)) -> NetDef:
    return NetDef(op=ops, external_input=["x", "q"], external_output=outputs)


def types(proto: NetDef) -> list[str]:
    return [op.type for op in proto.op]


def test_what_nothing_reads_is_removed_with_what_it_alone_reads() -> None:
    given = net(
        operator("Sigmoid", ["x"], ["a"]),
        operator("Tanh", ["a"], ["b"]),
        operator("Relu", ["x"], ["y"]),
    )
    assert types(remove_dead_end_ops(given)) == ["Relu"]
    assert len(given.op) == 3


def test_a_value_that_is_overwritten_unread_is_dead() -> None:
    given = net(operator("Sigmoid", ["x"], ["y"]), operator("Relu", ["x"], ["y"]))
    assert types(remove_dead_end_ops(given)) == ["Relu"]
    given = net(operator("Sigmoid", ["x"], ["y"]), operator("Relu", ["y"], ["y"]))
    assert types(remove_dead_end_ops(given)) == ["Sigmoid", "Relu"]


def test_operators_that_act_elsewhere_stay() -> None:
    body = NetDef(op=[operator("Print", ["x"], [])])
    given = net(
        operator("Print", ["x"], []),
        operator("EnqueueBlobs", ["q", "x"], ["x"]),
        operator("If", ["c"], ["unread"], then_net=body),
        operator("If", ["c"], ["unread"], then_net=NetDef(op=[operator("Relu", ["x"], ["unread"])])),
    )
    assert types(remove_dead_end_ops(given)) == ["Print", "EnqueueBlobs", "If"]


def test_a_part_of_a_net() -> None:
    given = net(
        operator("Relu", ["x"], ["h"]),
        operator("Tanh", ["h"], ["h"]),
        operator("Sigmoid", ["h"], ["y"]),
    )
    assert get_sub_graph_external_input_output(given, [1]) == ([("h", 1)], [("h", 2)])
    assert get_sub_graph_external_input_output(given, [0, 1, 2]) == ([("x", 0)], [("y", 1)])
