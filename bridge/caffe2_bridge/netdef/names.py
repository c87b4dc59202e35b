"""Names in protobufs that may come from anywhere: proto2 lets bytes pass that are no text."""

from __future__ import annotations

from collections.abc import Iterable

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def require_text(names: Iterable[object], place: str) -> None:
    """Raise NetFormatError where a name is not UTF-8 text; protobuf hands such a one over as bytes."""
    for name in names:
        if isinstance(name, bytes):
            raise NetFormatError(f"{place}: the name {name[:40]!r} is not UTF-8 text")


def require_text_in_net(net: NetDef) -> None:
    """The same for the names of a net and of its operators, sub-nets included."""
    require_text((net.name, net.type, *net.external_input, *net.external_output), "net")
    for index, op in enumerate(net.op):
        require_text_in_operator(op, index)
        for arg in op.arg:
            if arg.HasField("n"):
                require_text_in_net(arg.n)
            for inner in arg.nets:
                require_text_in_net(inner)


def require_text_in_operator(op: OperatorDef, index: int) -> None:
    """The same for one operator, without its sub-nets."""
    names = (op.type, op.name, op.engine, op.domain, *op.input, *op.output, *(arg.name for arg in op.arg))
    require_text(names, f"operator {index}")
