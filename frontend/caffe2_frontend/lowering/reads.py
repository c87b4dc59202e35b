"""Count the reads of blobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from caffe2_bridge.control import control_class
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def count_reads(net: NetDef) -> Counter[str]:
    """Count how often each blob is read in a net and its sub-nets: as an input, or by name in an argument."""
    return Counter(_reads(net))


def _reads(net: NetDef) -> Iterator[str]:
    for op in net.op:
        yield from op.input
        operator = control_class(op)
        own = frozenset[str]() if operator is None else operator.own_arguments
        for arg in op.arg:
            if arg.name not in own:
                for value in arg.strings:
                    yield value.decode(errors="replace")
            for inner in (*arg.nets, *([arg.n] if arg.HasField("n") else ())):
                yield from _reads(inner)
