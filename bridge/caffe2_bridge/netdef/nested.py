"""Nets in the arguments of operators, by protobuf field: see :mod:`caffe2_bridge.control` for what operators run."""

from __future__ import annotations

from collections.abc import Iterator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def nets_in(op: OperatorDef) -> Iterator[NetDef]:
    """Yield the nets in the arguments of an operator, in order, whether or not the operator runs them."""
    for arg in op.arg:
        if arg.HasField("n"):
            yield arg.n
        yield from arg.nets


def operators_in(net: NetDef) -> Iterator[OperatorDef]:
    """Yield the operators of a net, each followed by those of the nets in its arguments, at any depth."""
    for op in net.op:
        yield op
        if op.arg:
            for inner in nets_in(op):
                yield from operators_in(inner)
