"""Samples of records, and lists of ids of dense vectors."""

from __future__ import annotations

from typing import Any

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("samples")


@family.converts("DenseVectorToIdList")
def dense_vector_to_id_list(op: Op) -> tuple[Value, Value]:
    """Return the columns of each row whose element is 1 when it is rounded towards zero after 0.5 is added."""
    x = op.tensor(0)
    nonzero = (x >= 0.5) | (x <= -1.5)
    return nonzero.sum(1).to(torch.int32), nonzero.nonzero()[:, 1].to(torch.int32)


@family.converts("WeightedSample")
def weighted_sample(op: Op) -> tuple[Value, Value]:
    weights = op.tensor(0)
    if weights.numel() == 0:
        return torch.zeros(0, dtype=torch.int32), torch.zeros(0)
    sums = weights.cumsum(1)
    drawn = torch.rand(weights.shape[0], 1, dtype=weights.dtype) * sums[:, -1:]
    index = torch.searchsorted(sums, drawn).clamp(max=weights.shape[1] - 1)
    return index.to(torch.int32), op.tensor(1).gather(1, index) if op.has(1) else None


@family.converts("WeightedMultiSampling")
def weighted_multi_sampling(op: Op) -> Value:
    """Read the operand as cumulative sums."""
    sums, count = op.tensor(0), op.args.integer("num_samples", default=0)
    shape = list(op.tensor(1).shape) if op.has(1) else [count]
    if sums.numel() == 0:
        return torch.zeros(0, dtype=torch.int32)
    drawn = torch.rand(shape, dtype=sums.dtype) * sums[-1]
    return torch.searchsorted(sums, drawn).clamp(max=sums.numel() - 1).to(torch.int32)


@family.converts("TrimDataset")
def trim_dataset(op: Op) -> tuple[Value, ...]:
    """Keep the first records, as many as are a multiple of ``multiple_of``.

    The field ``a:lengths`` holds the number of elements of each record in all fields under ``a``.
    """
    names, multiple = op.args.texts("fields"), op.args.integer("multiple_of")
    if multiple < 1 or len(names) != op.count:
        op.refuse("multiple_of must be positive, and fields must name all operands")
    owners = [_owner(field, names) for field in range(len(names))]
    if any(owner is not None and owner >= field for field, owner in enumerate(owners)):
        op.refuse("lengths must precede the fields that they are of")
    values = [op.values[index] for index in range(op.count)]
    records = len(values[owners.index(None)])  # type: ignore[arg-type] # tensors and strings
    counts: dict[int | None, int] = {None: records // multiple * multiple}
    outputs: list[Value] = []
    for field, (owner, value) in enumerate(zip(owners, values, strict=True)):
        kept: Any = value[: counts[owner]]  # type: ignore[index] # tensors and strings
        outputs.append(kept)
        if field in owners:
            counts[field] = int(kept.sum())
    return tuple(outputs)


def _owner(field: int, names: tuple[str, ...]) -> int | None:
    """Return the field with the lengths of the innermost list that a field belongs to; None for one of the records."""
    parts, found = names[field].split(":"), None
    depth = 1  # of a list without a name, whose fields are those of the records
    for other, name in enumerate(names):
        *prefix, last = name.split(":")
        if last == "lengths" and other != field and parts[: len(prefix)] == prefix and len(prefix) >= depth:
            found, depth = other, len(prefix) + 1
    return found
