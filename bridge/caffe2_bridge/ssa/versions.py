"""Blob versions of a net as Caffe2 counts them, and maps between versions and operators.

Sub-nets in arguments are opaque here: what counts is what an operator declares.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from google.protobuf.message import Message

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.views import as_net_def

VersionedBlob: TypeAlias = tuple[str, int]
Ssa: TypeAlias = list[tuple[list[VersionedBlob], list[VersionedBlob]]]
BlobVersions: TypeAlias = dict[str, int]


def get_ssa(net: Message | bytes, blob_versions: BlobVersions | None = None) -> tuple[Ssa, BlobVersions]:
    """Return the versioned inputs and outputs of each operator, and the last version of each blob.

    Version 0 is what a blob holds before the net runs; each operator that writes a blob makes the next version, also
    where it lists the blob twice (both outputs then have the higher version). In a net without declared inputs, every
    blob read before it is written enters ``blob_versions`` at 0. ``blob_versions`` of an earlier net chains the two: it
    is updated in place and returned.
    """
    proto = as_net_def(net)
    versions = {} if blob_versions is None else blob_versions
    for name in proto.external_input:
        versions.setdefault(name, 0)
    declared = bool(proto.external_input)
    ssa: Ssa = []
    for op in proto.op:
        names = list(op.input)
        if not declared:
            for name in names:
                versions.setdefault(name, 0)
        inputs = [(name, versions.get(name, 0)) for name in names]
        written = list(op.output)
        for name in written:
            versions[name] = versions.get(name, 0) + 1
        ssa.append((inputs, [(name, versions[name]) for name in written]))
    return ssa, versions


def get_undefined_blobs(ssa: Ssa) -> set[str]:
    """Return the names read at version 0: what must exist before the net runs."""
    return {name for inputs, _ in ssa for name, version in inputs if version == 0}


def get_output_producers(ssa: Ssa) -> dict[VersionedBlob, int]:
    """Map a versioned blob to the index of the operator that makes it; the last one where several do."""
    return {blob: index for index, (_, outputs) in enumerate(ssa) for blob in outputs}


def get_producer_map(ssa: Ssa) -> dict[VersionedBlob, tuple[int, int]]:
    """Map a versioned blob to (operator index, output index) of what makes it."""
    return {blob: (i, j) for i, (_, outputs) in enumerate(ssa) for j, blob in enumerate(outputs)}


def get_consumer_map(ssa: Ssa) -> dict[VersionedBlob, list[tuple[int, int]]]:
    """Map a versioned blob to the (operator index, input index) of all that read it, in net order."""
    consumers: dict[VersionedBlob, list[tuple[int, int]]] = {}
    for i, (inputs, _) in enumerate(ssa):
        for j, blob in enumerate(inputs):
            consumers.setdefault(blob, []).append((i, j))
    return consumers


def get_op_ids_in_path(
    ssa: Ssa, blob_versions: BlobVersions, inputs: Iterable[str], outputs: Iterable[str]
) -> list[int]:
    """Return indices, ascending, of operators needed to make ``outputs`` from ``inputs``, all at their last versions.

    A name that ``blob_versions`` does not hold is a BridgeError that names it.
    """
    given = {_latest(name, blob_versions) for name in inputs}
    producers = get_output_producers(ssa)
    pending = [_latest(name, blob_versions) for name in outputs]
    used: set[int] = set()
    while pending:
        blob = pending.pop()
        index = None if blob in given else producers.get(blob)
        if index is not None and index not in used:
            used.add(index)
            pending.extend(ssa[index][0])
    return sorted(used)


def _latest(name: str, blob_versions: BlobVersions) -> VersionedBlob:
    if name not in blob_versions:
        raise BridgeError(f"blob {name!r} does not occur in the net")
    return name, blob_versions[name]


def get_external_blob_names(
    net: Message | bytes, lexical_scope: Collection[str]
) -> tuple[AbstractSet[str], AbstractSet[str]]:
    """Return the names a net needs from outside, and the names visible outside (in ``lexical_scope``) that it writes.

    Both are sets that iterate in the order of first use. Inputs that the scope lacks are a BridgeError that names them.
    """
    proto = as_net_def(net)
    ssa, _ = get_ssa(proto)
    scope = lexical_scope if isinstance(lexical_scope, AbstractSet | dict) else frozenset(lexical_scope)
    inputs = dict.fromkeys(name for blobs, _ in ssa for name, version in blobs if version == 0)
    outputs = dict.fromkeys(name for _, blobs in ssa for name, _ in blobs if name in scope)
    missing = [name for name in inputs if name not in scope]
    if missing:
        raise BridgeError(f"{proto.name or 'net'} reads blobs that its scope lacks: {', '.join(map(repr, missing))}")
    return inputs.keys(), outputs.keys()
