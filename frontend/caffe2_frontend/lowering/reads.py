"""Counts of how often blobs are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from caffe2_bridge.proto.caffe2_pb2 import NetDef

# String arguments of RecurrentNetwork that name blobs that it creates itself.
_NAMES_MADE: Final = frozenset({"alias_src", "alias_dst", "recurrent_states", "link_internal", "link_external"})


def count_reads(net: NetDef) -> Counter[str]:
    """How often each blob is read by the operators of a net, and of nets in it: as operand, or named in an argument."""
    return Counter(_reads(net))


def _reads(net: NetDef) -> Iterator[str]:
    for op in net.op:
        yield from op.input
        for arg in op.arg:
            if arg.name not in _NAMES_MADE:
                for value in arg.strings:
                    yield value.decode(errors="replace")
            for inner in (*arg.nets, *([arg.n] if arg.HasField("n") else ())):
                yield from _reads(inner)
