"""Merging of sparse features: the features of several operands become one map or list per example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("feature")

# The operands come in groups of so many.
_GROUPS: Final = {
    "MergeSingleScalarFeatureTensors": 2, "MergeSingleListFeatureTensors": 3, "MergeSingleMapFeatureTensors": 4,
    "MergeMultiScalarFeatureTensors": 3, "MergeMultiListFeatureTensors": 4, "MergeMultiMapFeatureTensors": 5,
    "MergeIdLists": 2,
}  # fmt: skip


def _groups(op: Op) -> list[list[torch.Tensor]]:
    """Return the operands by their role in a group, each as a vector."""
    size = _GROUPS[op.type]
    if op.count % size:
        op.refuse(f"the number of operands ({op.count}) must be a multiple of {size}")
    flat = [value.reshape(-1) for value in op.tensors]
    return [flat[role::size] for role in range(size)]


def _present_keys(op: Op, presence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the number of features of each example, and their ids; ``presence`` is [examples, features]."""
    ids = torch.tensor(op.args.integers("feature_ids", default=()), dtype=torch.int64)
    if ids.numel() < presence.shape[1]:
        op.refuse(f"feature_ids must name all features ({presence.shape[1]}), not {ids.numel()}")
    return presence.sum(1).to(torch.int32), ids[presence.nonzero()[:, 1]]


@family.converts("MergeDenseFeatureTensors")
def merge_dense(op: Op) -> tuple[Value, ...]:
    x, presence = op.tensors
    if x.numel() != presence.numel():
        op.refuse("there must be one presence for each element")
    return *_present_keys(op, presence.reshape(x.shape[:2])), x.reshape(-1)[presence.reshape(-1)]


@family.converts("MergeSingleScalarFeatureTensors")
def merge_single_scalars(op: Op) -> tuple[Value, ...]:
    values, presence = _groups(op)
    present = torch.stack(presence, dim=1)
    return *_present_keys(op, present), torch.stack(values, dim=1)[present]


@family.converts("MergeSingleListFeatureTensors", "MergeSingleMapFeatureTensors")
def merge_single_lists(op: Op) -> tuple[Value, ...]:
    """Ignore the lengths of a feature where it is absent."""
    lengths, *parts, presence = _groups(op)
    present = torch.stack(presence, dim=1)
    length = torch.where(present, torch.stack(lengths, dim=1).to(torch.int64), 0)
    merged = (_merged(length, part) for part in parts)
    return *_present_keys(op, present), length[present].to(torch.int32), *merged


def _merged(lengths: torch.Tensor, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the elements of all operands in the order of examples; ``lengths`` are [examples, operands]."""
    pieces = [torch.split(part[: int(n.sum())], n.tolist()) for part, n in zip(parts, lengths.unbind(1), strict=True)]
    ordered = [own for example in zip(*pieces, strict=True) for own in example]
    return torch.cat(ordered) if ordered else parts[0][:0]


@family.converts("MergeMultiScalarFeatureTensors")
def merge_multi_scalars(op: Op) -> tuple[Value, ...]:
    lengths, keys, values = _groups(op)
    length = torch.stack(lengths, dim=1).to(torch.int64)
    return length.sum(1).to(torch.int32), _merged(length, keys), _merged(length, values)


@family.converts("MergeMultiListFeatureTensors", "MergeMultiMapFeatureTensors")
def merge_multi_lists(op: Op) -> tuple[Value, ...]:
    lengths, keys, value_lengths, *parts = _groups(op)
    length = torch.stack(lengths, dim=1).to(torch.int64)
    counts = torch.stack(
        [
            torch.stack([own.sum() for own in torch.split(counted, n.tolist())])
            for counted, n in zip(value_lengths, length.unbind(1), strict=True)
        ],
        dim=1,
    ).to(torch.int64)  # fmt: skip
    chosen = _merged(length, value_lengths).to(torch.int32)
    return length.sum(1).to(torch.int32), _merged(length, keys), chosen, *(_merged(counts, part) for part in parts)


@family.converts("MergeIdLists")
def merge_id_lists(op: Op) -> tuple[Value, Value]:
    """Return the distinct ids of each example in all lists, in ascending order."""
    lengths, ids = _groups(op)
    pieces = [torch.split(part, n.tolist()) for part, n in zip(ids, lengths, strict=True)]
    merged = [torch.cat(example).unique(sorted=True) for example in zip(*pieces, strict=True)]
    counts = torch.tensor([own.numel() for own in merged], dtype=torch.int32)
    return counts, torch.cat(merged) if merged else ids[0][:0]
