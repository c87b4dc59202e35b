"""Replace the operators of nets."""

from __future__ import annotations

from collections.abc import Iterable

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def set_operators(net: NetDef, ops: Iterable[OperatorDef]) -> None:
    """Replace the operators of a net in place; the new ones may be the net's own, and are copied."""
    ops = list(ops)
    del net.op[:]
    net.op.extend(ops)


def with_operators(net: NetDef, ops: Iterable[OperatorDef]) -> NetDef:
    """Return a copy of a net with other operators, which may be the net's own."""
    result = NetDef()
    result.CopyFrom(net)
    set_operators(result, ops)
    return result
