"""Writes to blobs of whose memory others are views in Caffe2, so that these change too; in a graph they would not."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Final

from caffe2_bridge.control import CONTROL_TYPES, BodyScope, RecurrentNetwork, Runs, nets_run_by
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa import numbered
from caffe2_bridge.ssa.effects import NetEffects, OpEffects

_ALIASES: Final = frozenset({"Alias", "AliasWithName"})
_SHARING: Final = _ALIASES | {"RecurrentNetwork", "UnsafeCoalesce"}
# Those that share memory, and those with bodies, which may have them.
_OF_INTEREST: Final = _SHARING | CONTROL_TYPES
# Operators that leave the elements of a blob that they write in place as they are.
_KEEPING: Final = _ALIASES | {
    "Copy", "CopyFromCPUInput", "CopyOnDeviceLike", "EnsureCPUOutput", "EnsureDense", "ExpandDims", "Flatten",
    "FlattenToVec", "MergeDim", "PrependDim", "Reshape", "ResizeLike", "Squeeze", "StopGradient",
}  # fmt: skip

# An operator, what it does under the names that it has in its net, and where it is.
_Located = tuple[OpView, OpEffects, Location]
# Pairs of blobs that share memory.
_Pairs = frozenset[frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Rest:
    """What runs after an operator: the following ones of its net, and what runs after that net in its workspace."""

    ops: Sequence[_Located]
    start: int
    results: Collection[str]
    outer: _Rest | None = None

    def finds(self, name: str) -> bool:
        """Whether a blob is a result, or is found before one of the operators overwrites it."""
        for _, op, _ in islice(self.ops, self.start, None):
            if name in op.found:
                return True
            if name in op.writes:
                return False
        return name in self.results or (self.outer is not None and self.outer.finds(name))


def check_shared_memory(net: NetDef, effects: NetEffects, indices: Collection[int]) -> list[Diagnostic]:
    """Report operators, also in bodies, that write a blob of whose memory another one, which is read later, is a view.

    Only the operators of ``net`` whose indices are given are checked; ``effects`` are those of all.
    """
    if not any(op.type in _OF_INTEREST for op in net.op):
        return []
    chosen = frozenset(indices)
    ops = [each for each in _located(net, effects, Location(net.name or "net")) if each[0].index in chosen]
    return list(_of_net(_Rest(ops, 0, net.external_output), frozenset()))


def _located(net: NetDef, effects: NetEffects, here: Location) -> Iterator[_Located]:
    for (index, op), does in zip(numbered(NetView(net)), effects.ops, strict=True):
        yield op, does, replace(here, index=index, op_type=op.type, op_name=op.name)


def _of_net(net: _Rest, pairs: _Pairs) -> Generator[Diagnostic, None, _Pairs]:
    """Report the operators of a net, at whose start ``pairs`` share memory; return those that do at its end."""
    for place, (op, does, here) in enumerate(net.ops, 1):
        rest = replace(net, start=place)
        if does.control is not None and does.control.scope is BodyScope.SHARED:
            pairs = yield from _of_bodies(op, does, here, rest, pairs)
            continue
        for name in does.changed if pairs and not _keeps(op) else ():
            for other in sorted(frozenset().union(*(pair for pair in pairs if name in pair)).difference(does.changed)):
                if rest.finds(other):
                    reason = f"{op.type} writes {name!r}, with which {other!r}, which is read later, shares its memory"
                    yield Diagnostic("shared-memory", reason, here, hint="give the output a name of its own")
        pairs = _with_pairs_of(op, pairs)
        for body, inner in _bodies(op, does, here):
            yield from _of_net(_Rest(inner, 0, body.external_output), frozenset())
    return pairs


def _of_bodies(
    op: OpView, does: OpEffects, here: Location, rest: _Rest, pairs: _Pairs
) -> Generator[Diagnostic, None, _Pairs]:
    """Report the same for the bodies of a branch or loop, which find and write the blobs of the net around them."""
    after = pairs
    again = does.found if does.control is not None and does.control.runs is Runs.LOOP else ()
    for body, inner in _bodies(op, does, here):
        after |= yield from _of_net(_Rest(inner, 0, {*body.external_output, *again}, rest), pairs)
    return after


def _bodies(op: OpView, does: OpEffects, here: Location) -> Iterator[tuple[NetDef, list[_Located]]]:
    for name, body in nets_run_by(op):
        if name in does.bodies:
            yield body, list(_located(body, does.bodies[name], here.enter(name)))


def _keeps(op: OpView) -> bool:
    """Whether an operator leaves the elements of what it writes in place as they are, or gives a blob new memory."""
    if op.type in _SHARING:
        return True
    in_place = frozenset(op.inputs).issuperset(op.outputs[:1])
    return in_place and (op.type in _KEEPING or (op.type == "Dropout" and op.args.flag("is_test", default=False)))


def _with_pairs_of(op: OpView, pairs: _Pairs) -> _Pairs:
    """Return the pairs of blobs that share memory after an operator."""
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
    """Yield the pairs of results of a RecurrentNetwork that are views of one state: all its rows, and the last ones."""
    try:
        aliases = RecurrentNetwork(op).spec.aliases
    except ArgumentError:  # analyses report it
        return
    for one, other in combinations(aliases, 2):
        if one.source == other.source and one.blob != other.blob:
            yield frozenset({one.blob, other.blob})
