"""Writes to blobs of whose memory others are views in Caffe2, so that these change too; in a graph they would not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

from caffe2_bridge.control import CONTROL_TYPES, RecurrentNetwork, nets_run_by
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa import numbered

_ALIASES: Final = frozenset({"Alias", "AliasWithName"})
_SHARING: Final = _ALIASES | {"RecurrentNetwork", "UnsafeCoalesce"}
# Those that share memory, and those with bodies, which may have them.
_OF_INTEREST: Final = _SHARING | CONTROL_TYPES
# Operators that leave the elements of a blob that they write in place as they are.
_KEEPING: Final = _ALIASES | {
    "Copy", "CopyFromCPUInput", "CopyOnDeviceLike", "EnsureCPUOutput", "EnsureDense", "ExpandDims", "Flatten",
    "FlattenToVec", "MergeDim", "PrependDim", "Reshape", "ResizeLike", "Squeeze", "StopGradient",
}  # fmt: skip

# Pairs of blobs that share memory.
_Pairs = frozenset[frozenset[str]]


def check_shared_memory(net: NetDef, indices: Collection[int]) -> list[Diagnostic]:
    """Report operators, also in bodies, that write a blob of whose memory another one, which is read later, is a view.

    Only the operators of ``net`` whose indices are given are checked.
    """
    if not any(op.type in _OF_INTEREST for op in net.op):
        return []
    chosen, name = frozenset(indices), net.name or "net"
    ops = [(op, Location(name, index, op.type, op.name)) for index, op in numbered(NetView(net)) if index in chosen]
    return list(_of_net(ops, net.external_output))


def _of_net(ops: Sequence[tuple[OpView, Location]], results: Collection[str]) -> Iterator[Diagnostic]:
    pairs: _Pairs = frozenset()
    for place, (op, here) in enumerate(ops):
        for name in op.outputs if pairs and not _keeps(op) else ():
            for other in sorted(frozenset().union(*(pair for pair in pairs if name in pair)).difference(op.outputs)):
                if _is_read(other, (later for later, _ in ops[place + 1 :]), results):
                    reason = f"{op.type} writes {name!r}, with which {other!r}, which is read later, shares its memory"
                    yield Diagnostic("shared-memory", reason, here, hint="give the output a name of its own")
        pairs = _with_pairs_of(op, pairs)
        for body, net in nets_run_by(op):
            inner = ((each, here.enter(body, index, each.type, each.name)) for index, each in numbered(NetView(net)))
            yield from _of_net(list(inner), net.external_output)


def _keeps(op: OpView) -> bool:
    """Whether an operator leaves the elements of what it writes in place as they are, or gives a blob new memory."""
    if op.type in _SHARING:
        return True
    in_place = frozenset(op.inputs).issuperset(op.outputs[:1])
    return in_place and (op.type in _KEEPING or (op.type == "Dropout" and op.args.flag("is_test", default=False)))


def _is_read(name: str, ops: Iterable[OpView], results: Collection[str]) -> bool:
    """Whether a blob is read before one of the operators that follow overwrites it, or is a result."""
    for op in ops:
        if name in op.inputs:
            return True
        if name in op.outputs:
            return False
    return name in results


def _with_pairs_of(op: OpView, pairs: _Pairs) -> _Pairs:
    """The pairs of blobs that share memory after an operator."""
    if op.type in _ALIASES and op.inputs and op.outputs and op.inputs[0] != op.outputs[0]:
        source, target = op.inputs[0], op.outputs[0]
        shared = frozenset().union({source}, *(pair for pair in pairs if source in pair)) - {target}
        new = {frozenset({name, target}) for name in shared}
    elif op.type == "UnsafeCoalesce":
        new = {frozenset({name, op.outputs[-1]}) for name in op.outputs[:-1]}
    elif op.type == "RecurrentNetwork":
        new = set(_views_of_states(op))
    else:
        return pairs
    made = frozenset().union(*new).difference(op.inputs if op.type in _ALIASES else ())
    return frozenset(pair for pair in pairs if made.isdisjoint(pair)) | new


def _views_of_states(op: OpView) -> Iterator[frozenset[str]]:
    """The pairs of results of a RecurrentNetwork that are views of one state: all its rows, and the last ones."""
    try:
        aliases = RecurrentNetwork(op).spec.aliases
    except ArgumentError:  # analyses report it
        return
    for one, other in combinations(aliases, 2):
        if one.source == other.source and one.blob != other.blob:
            yield frozenset({one.blob, other.blob})
