"""Shapes that Caffe2's inference claims where they depend on values or arguments: recorded in real Caffe2 1.9.1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from caffe2_backend.workspace.host_inference import Known
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef, TensorProto


def claimed_shapes(op: OperatorDef, known: Mapping[str, Known]) -> dict[str, Known]:
    """Return the shapes and types of outputs that Caffe2 claims; none unless all inputs are known."""
    claim = _CLAIMS.get(op.type)
    if claim is None or any(name not in known for name in op.input):
        return {}
    counts, claimed = claim
    if len(op.input) != counts:
        return {}
    return dict(zip(op.output, claimed([known[name] for name in op.input]), strict=False))


def _gather_ranges(inputs: Sequence[Known]) -> list[Known]:
    """All elements, as many as the ranges can select; and their number by row of ranges."""
    (data, dtype), (ranges, _) = inputs
    return [(data, dtype), (ranges[:1], TensorProto.INT32)]


def _batch_bucket_one_hot(inputs: Sequence[Known]) -> list[Known]:
    """One column for each boundary, and one more for each column of the data."""
    data, lengths, boundaries = (shape for shape, _ in inputs)
    return [([data[0], lengths[0] + boundaries[0]], TensorProto.FLOAT)]


# By operator type: the number of inputs, and the function from their shapes and types to those of outputs.
_CLAIMS: Final[Mapping[str, tuple[int, Callable[[Sequence[Known]], list[Known]]]]] = {
    "BatchBucketOneHot": (3, _batch_bucket_one_hot),
    "GatherRanges": (2, _gather_ranges),
    "IndexHash": (1, list),
}
