"""Bodies that are written as text, as nets for the time of an edit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from caffe2_bridge.control.description import write_text
from caffe2_bridge.control.table import body_arguments
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef


@contextmanager
def parsed_bodies(net: NetDef) -> Iterator[None]:
    """Turn bodies that are written as text into nets while this is entered, so that they can be edited in place.

    Operators may be replaced meanwhile, but those with bodies keep their order. Raises ArgumentError where a text
    cannot be parsed.
    """
    texts: list[bytes | None] = []
    for proto, arg in _bodies(net):
        texts.append(arg.s if arg.HasField("s") else None)
        if texts[-1] is not None:
            body = OpView(proto, 0).args.net(arg.name)
            arg.ClearField("s")
            arg.n.SetInParent()
            if body is not None:
                arg.n.CopyFrom(body)
    try:
        yield
    finally:
        pairs = list(zip(_bodies(net), texts, strict=True))
        for (_, arg), text in reversed(pairs):
            if text is not None:
                body = NetDef.FromString(arg.n.SerializeToString())
                arg.s = text
                arg.ClearField("n")
                write_text(arg, body)


def _bodies(net: NetDef) -> Iterator[tuple[OperatorDef, Argument]]:
    for proto in net.op:
        for arg in body_arguments(proto):
            yield proto, arg
            if arg.HasField("n"):
                yield from _bodies(arg.n)
