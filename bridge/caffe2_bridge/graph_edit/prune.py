"""Remove operators whose outputs are unused, and find the inputs and outputs of a subgraph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, SupportsIndex

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.graph_edit.value_numbering import with_ops
from caffe2_bridge.netdef.views import as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, OpEffects, effects_of
from caffe2_bridge.ssa.versions import VersionedBlob, get_ssa

# Operators with outputs whose effect is elsewhere: in queues, counters of other processes, stores.
_ACTS: Final = frozenset({
    "Allreduce", "AsyncNetBarrier", "Barrier", "Broadcast", "CloseBlobsQueue", "CloseRebatchingQueue", "CountDown",
    "CountUp", "DequeueBlobs", "EnqueueBlobs", "EnqueueRebatchingQueue", "IndexFreeze", "IndexLoad", "NCCLAllreduce",
    "NCCLBroadcast", "NCCLReduce", "ReadNextBatch", "ReadRandomBatch", "ResetCounter", "ResetCursor",
    "SafeDequeueBlobs", "SafeEnqueueBlobs", "SendTensor", "StoreAdd", "StoreSet",
})  # fmt: skip


def remove_dead_end_ops(net: Message | bytes) -> NetDef:
    """Return the net without operators whose every output is unused and no external output, transitively.

    An operator stays where any later operator that stays, or a body of one, reads what it writes. Operators without
    outputs (``Print``, ``Assert``, ``Save``) and those that act on queues, counters or other processes stay, as do
    operators with such an operator in a body. Bodies stay unchanged, and so do declared external inputs.
    """
    proto = as_net_def(net)
    effects = effects_of(proto, proto.name or "net")
    live = set(proto.external_output)
    kept: list[OperatorDef] = []
    for op, does in zip(reversed(proto.op), reversed(effects.ops), strict=True):
        if not (_acts(op, does) or any(name in live for name in (*op.output, *does.changed))):
            continue
        kept.append(op)
        live.difference_update(does.writes)
        live.update(does.used)
    return with_ops(proto, reversed(kept))


def _acts(op: OperatorDef, does: OpEffects) -> bool:
    if does.bodies:
        return any(_net_acts(body) for body in does.bodies.values())
    return not op.output or op.type in _ACTS


def _net_acts(net: NetEffects) -> bool:
    return any(_acts(op, does) for op, does in zip(net.net.op, net.ops, strict=True))


def get_sub_graph_external_input_output(
    net: Message | bytes, op_indices: Iterable[int]
) -> tuple[list[VersionedBlob], list[VersionedBlob]]:
    """Return the versioned blobs that a part of a net needs from the rest, and that it makes for the rest or outside.

    In order of first use. What a control operator's bodies read without declaring it counts. Raises BridgeError where
    an index is none of the net's.
    """
    proto = as_net_def(net)
    ssa, versions = get_ssa(proto)
    chosen = set(op_indices)
    foreign = [index for index in chosen if not isinstance(index, SupportsIndex)]
    if foreign:
        raise BridgeError(f"op_indices must hold integers, not {foreign[0]!r}")
    wrong = [index for index in chosen if not 0 <= index < len(ssa)]
    if wrong:
        raise BridgeError(f"operator index {wrong[0]} is out of range for a net of {len(ssa)} operators")
    reads = reads_of(effects_of(proto, proto.name or "net"))
    made = dict.fromkeys(blob for index in sorted(chosen) for blob in ssa[index][1])
    needed = dict.fromkeys(blob for index in sorted(chosen) for blob in reads[index])
    elsewhere = {blob for index in range(len(ssa)) if index not in chosen for blob in reads[index]}
    elsewhere.update((name, versions.get(name, 0)) for name in proto.external_output)
    return [blob for blob in needed if blob not in made], [blob for blob in made if blob in elsewhere]


def reads_of(effects: NetEffects) -> list[list[VersionedBlob]]:
    """Return the versioned blobs that each operator or its bodies read; a blob that is updated in place is read."""
    versions: dict[str, int] = {}
    reads = []
    for op, does in zip(effects.net.op, effects.ops, strict=True):
        names: dict[str, None] = dict.fromkeys(op.input)
        if does.bodies:
            names.update(dict.fromkeys(name for name in does.used if name in versions or name in does.reads))
        reads.append([(name, versions.get(name, 0)) for name in names])
        for name in op.output:  # as get_ssa counts: a blob that is listed twice has the version of the last
            versions[name] = versions.get(name, 0) + 1
    return reads
