"""Records as single values: PackRecords and UnPackRecords."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from caffe2_backend.runtime.host.datasets.cursors import columns, tree_of
from caffe2_backend.runtime.host.datasets.tree import TreeError
from caffe2_backend.runtime.host.family import HostFamily, HostOp
from caffe2_backend.runtime.values import Array, HostObject

family = HostFamily("packed records")

Record = Sequence[Array]


class PackedRecords(HostObject):
    """A tensor whose elements are records, each one a tensor per field."""

    type_name = "std::shared_ptr<std::vector<caffe2::Tensor> >"
    is_single: ClassVar[bool] = False

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records


class SharedRecords(PackedRecords):
    """All records as one element."""

    type_name = "std::shared_ptr<std::vector<std::vector<caffe2::Tensor> > >"
    is_single = True


@family.runs("PackRecords")
def pack_records(op: HostOp) -> None:
    """PackRecords(field...; fields, pack_to_single_shared_ptr=0) -> records."""
    tree, fields = tree_of(op), columns(op, 0)
    with op.translating(TreeError):
        offsets = tree.offsets(fields, [0] * tree.domain_count)
    records = [
        tuple(field[begin[d] : end[d]].copy() for field, d in zip(fields, tree.domains, strict=True))
        for begin, end in pairwise(offsets)
    ]
    single = op.args.flag("pack_to_single_shared_ptr", default=False)
    op.set(0, (SharedRecords if single else PackedRecords)(records))


@family.runs("UnPackRecords")
def unpack_records(op: HostOp) -> None:
    """UnPackRecords(records, prototype...; fields) -> the fields; prototypes give their shapes where there are none.

    A tensor as the only input is returned as it is.
    """
    value = op.value(0)
    if not isinstance(value, PackedRecords):
        if len(op.inputs) != 1 or len(op.outputs) != 1:
            raise op.error(f"blob {op.inputs[0]!r} must be packed records")
        op.set(0, op.array(0).copy())
        return
    prototypes = columns(op, 1)
    if not prototypes and not value.records:
        raise op.error("records without elements need prototypes of the fields as further inputs")
    empty: Sequence[Array] = prototypes or value.records[0]
    if len(empty) != len(op.outputs):
        raise op.error(f"{len(empty)} fields need as many outputs, not {len(op.outputs)}")
    for i, like in enumerate(empty):
        parts = [record[i] for record in value.records if i < len(record)]
        if len(parts) != len(value.records) or not all(_alike(part, like) for part in parts):
            raise op.error(
                f"field {i} of the records is not like {op.inputs[i + 1] if prototypes else 'the first one'}"
            )
        op.set(i, np.concatenate([like[:0], *parts]))


def _alike(part: Array, like: Array) -> bool:
    return part.dtype == like.dtype and part.shape[1:] == like.shape[1:]
