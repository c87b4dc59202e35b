"""Selection of elements by index, key, membership or mask."""

from __future__ import annotations

import numpy as np
import torch

from caffe2_bridge.proto.caffe2_pb2 import TensorProto
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import DTYPES, Value

family = Family("indexing")


@family.converts("Gather", "BatchGather")
def gather(op: Op) -> Value:
    op.args.ignore("wrap_indices")
    if isinstance(op.values[0], np.ndarray):
        if op.args.flag("match_outer", default=False):
            op.refuse("match_outer is not supported for strings")
        axis = 1 if op.type == "BatchGather" else op.args.integer("axis", default=0)
        return np.take(op.strings(0), op.tensor(1).numpy(), axis=axis)
    x, index = op.tensor(0), op.tensor(1).to(torch.int64)
    axis = op.axis(1 if op.type == "BatchGather" else op.args.integer("axis", default=0), x.dim())
    if x.shape[axis] == 0:
        return x
    op.require_within(index, -x.shape[axis], x.shape[axis], f"indices must be below {x.shape[axis]}")
    index = torch.where(index < 0, index + x.shape[axis], index)
    if not op.args.flag("match_outer", default=False):
        if index.numel() == 0:
            return x.new_empty((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
        return x.index_select(axis, index.reshape(-1)).reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    if axis == 0 or index.shape[:axis] != x.shape[:axis]:
        op.refuse("match_outer requires a positive axis, and indices with the dims before it")
    outer = int(np.prod(x.shape[:axis]))
    rows = x.reshape(outer, x.shape[axis], -1)
    picked = torch.stack([row[i] for row, i in zip(rows, index.reshape(outer, -1), strict=True)])
    return picked.reshape(*index.shape, *x.shape[axis + 1 :])


@family.converts("BooleanMask")
def boolean_mask(op: Op) -> tuple[Value, Value]:
    mask = op.tensor(1)
    if mask.dim() != 1 or mask.shape[0] != op.values[0].shape[0]:  # type: ignore[union-attr] # no blob without a shape
        op.refuse("the mask must be a vector with one element per row")
    index = mask.nonzero().reshape(-1)
    if isinstance(op.values[0], np.ndarray):
        return op.strings(0)[mask.numpy()], index
    return op.tensor(0)[mask], index


@family.converts("BooleanMaskLengths")
def boolean_mask_lengths(op: Op) -> Value:
    lengths, mask = op.tensor(0), op.tensor(1)
    ids = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths.to(torch.int64))
    if ids.shape != mask.shape:
        op.refuse("the lengths must sum to the number of elements of the mask")
    return torch.zeros_like(lengths).index_add(0, ids, mask.to(lengths.dtype))


@family.converts("BooleanUnmask")
def boolean_unmask(op: Op) -> Value:
    pairs = list(zip(op.tensors[::2], op.tensors[1::2], strict=True))
    taken = torch.zeros_like(pairs[0][0])
    result = pairs[0][1].new_empty(taken.shape[0])
    for mask, values in pairs:
        own = mask & ~taken
        if int(own.sum()) != values.shape[0]:
            op.refuse("there must be one value for each element that only this mask selects")
        result = result.index_put((own.nonzero().reshape(-1),), values)
        taken = taken | mask
    if not bool(taken.all()):
        op.refuse("the masks must cover all elements")
    return result


@family.converts("Unique")
def unique(op: Op) -> tuple[Value, Value]:
    values, inverse = torch.unique(op.tensor(0), sorted=True, return_inverse=True)
    return values, inverse.to(torch.int32)


@family.converts("FindDuplicateElements")
def find_duplicate_elements(op: Op) -> Value:
    value = op.values[0]
    items = value.tolist() if isinstance(value, torch.Tensor) else list(op.strings(0))
    seen: set[object] = set()
    found = []
    for index, item in enumerate(items):
        if item in seen:
            found.append(index)
        seen.add(item)
    return torch.tensor(found, dtype=torch.int64)


@family.converts("Find")
def find(op: Op) -> Value:
    pool, query = op.tensor(0), op.tensor(1)
    missing = op.args.integer("missing_value", default=-1)
    last = {item: index for index, item in enumerate(pool.reshape(-1).tolist())}
    found = [last.get(item, missing) for item in query.reshape(-1).tolist()]
    return torch.tensor(found, dtype=pool.dtype).reshape(query.shape)


@family.converts("IsMemberOf")
def is_member_of(op: Op) -> Value:
    declared, value = op.args.integer("dtype", default=TensorProto.UNDEFINED), op.values[0]
    if isinstance(value, np.ndarray):
        words = op.args.texts("value", default=())
        known = declared in (TensorProto.UNDEFINED, TensorProto.STRING)
        found = [known and item in words for item in value.ravel()]
        return torch.tensor(found, dtype=torch.bool).reshape(value.shape)
    x, numbers = op.tensor(0), op.args.integers("value", default=())
    if declared != TensorProto.UNDEFINED and DTYPES.get(declared) != x.dtype:
        return torch.zeros_like(x, dtype=torch.bool)
    return torch.isin(x.to(torch.int64), torch.tensor(numbers, dtype=torch.int64))


@family.converts("Partition")
def partition(op: Op) -> tuple[Value, ...]:
    count, keys = op.output_count // op.count, op.tensor(0)
    shards = torch.remainder(keys, count)
    rows: list[torch.Tensor] = [keys, *op.tensors[1:]]
    if op.args.integer("pack_first_input", default=0):
        rows[0] = torch.div(keys - shards, count, rounding_mode="trunc")
    flat = [x.reshape(-1, *x.shape[keys.dim() :]) for x in rows]
    return tuple(x[shards.reshape(-1) == index] for index in range(count) for x in flat)


@family.converts("GatherByKey")
def gather_by_key(op: Op) -> Value:
    keys, parts = op.tensor(0), op.tensors[1:]
    order = torch.argsort(torch.remainder(keys, len(parts)), stable=True)
    return torch.cat(parts)[torch.argsort(order)]


@family.converts("KeySplit")
def key_split(op: Op) -> tuple[Value, ...]:
    keys, limit = op.tensor(0).reshape(-1), op.args.integer("categorical_limit", default=0)
    if limit != op.output_count:
        op.refuse(f"categorical_limit ({limit}) must be the number of outputs ({op.output_count})")
    return tuple((keys == key).nonzero().reshape(-1).to(torch.int32) for key in range(limit))


@family.converts("QuantDecode")
def quant_decode(op: Op) -> tuple[Value, ...]:
    book = op.tensor(0).reshape(-1)
    return tuple(book[code.to(torch.int64)] for code in op.tensors[1:])
