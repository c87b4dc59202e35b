"""Shapes that Caffe2's inference claims where they depend on values or arguments: recorded in real Caffe2 1.9.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef, TensorProto
from caffe2_compat.workspace.host_inference import Known

Shapes = Sequence[Known]


def claimed_shapes(op: OperatorDef, known: Mapping[str, Known]) -> dict[str, Known]:
    """Return the shapes and types of outputs that Caffe2 claims; none unless all inputs are known."""
    claim = _CLAIMS.get(op.type)
    if claim is None or not op.input or any(name not in known for name in op.input):
        return {}
    try:
        claimed = claim(OpView(op, 0), [known[name] for name in op.input])
    except (ArgumentError, IndexError):
        return {}
    return {name: found for name, found in zip(op.output, claimed, strict=False) if found is not None}


def _identical(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shape and type of the first input."""
    return inputs[:1]


def _gather_ranges(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shapes of all elements, as many as the ranges can select, and of their number by row of ranges."""
    (data, dtype), (ranges, _) = inputs[:2]
    return (data, dtype), (ranges[:1], TensorProto.INT32)


def _batch_bucket_one_hot(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shape of one column for each boundary, and one more for each column of the data."""
    (data, _), (lengths, _), (boundaries, _) = inputs[:3]
    return (([data[0], lengths[0] + boundaries[0]], TensorProto.FLOAT),)


def _dot_product_with_padding(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shape of one number a row; the operator takes a vector for a column."""
    shape, dtype = inputs[0]
    return ((shape[:1], dtype),)


def _concat(op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return a shape with another axis for ``order`` and ``add_axis``, read only with ``axis``; else nothing."""
    if not op.args.flag("add_axis", default=False) or "axis" in op.args:
        return ()
    shape, dtype = inputs[0]
    axis = 3 if op.args.text("order", default="NCHW") == "NHWC" else 1
    return ([*shape[:axis], len(inputs), *shape[axis:]], dtype), ([len(inputs)], TensorProto.INT32)


def _unique(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shapes of distinct elements, whose number is known of none and of one, and of their indices."""
    shape, dtype = inputs[0]
    return (shape, dtype) if shape in ([0], [1]) else None, (shape, TensorProto.INT32)


def _learning_rate(_op: OpView, inputs: Shapes) -> Iterable[Known | None]:
    """Return the shape of the iteration number, though the operator makes one number of it."""
    return ((inputs[0][0], TensorProto.FLOAT),)


# By operator type: the function from the operator, and its inputs' shapes and types, to those of outputs.
_CLAIMS: Final[Mapping[str, Callable[[OpView, Shapes], Iterable[Known | None]]]] = {
    "BatchBucketOneHot": _batch_bucket_one_hot,
    "Concat": _concat,
    "DotProductWithPadding": _dot_product_with_padding,
    "GatherRanges": _gather_ranges,
    "IndexHash": _identical,
    "LearningRate": _learning_rate,
    "Unique": _unique,
}
