"""The table of contents: one family of converters a file."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_frontend import control
from caffe2_frontend.family import Converter, Expectation, Family, merge
from caffe2_frontend.ops import (
    activation,
    box_limit,
    box_transform,
    calibration,
    cast,
    convolution,
    counting,
    ctc,
    distance,
    elementwise,
    encoding,
    feature,
    fill,
    fpn,
    hierarchical_softmax,
    histogram,
    image,
    indexing,
    inference_lstm,
    keypoint,
    learning_rate,
    lengths,
    linear,
    loss,
    math,
    metric,
    normalization,
    optimizer,
    pooling,
    proposals,
    random_fill,
    random_rowwise,
    ranking,
    reduction,
    region,
    rnn_unit,
    roi_align,
    rowwise,
    samples,
    scatter,
    segment_reduction,
    sequence,
    sequence_mask,
    shape,
    slicing,
    sorting,
    sparse,
    sparse_lengths_rowwise,
    sparse_optimizer,
    statistics,
    strings,
    tensor_train,
)
from caffe2_frontend.ops import copy as copy_ops
from caffe2_frontend.recurrent import network

FAMILIES: tuple[Family, ...] = (
    activation.family,
    box_limit.family,
    box_transform.family,
    calibration.family,
    cast.family,
    control.family,
    convolution.family,
    copy_ops.family,
    counting.family,
    ctc.family,
    distance.family,
    elementwise.family,
    encoding.family,
    feature.family,
    fill.family,
    fpn.family,
    hierarchical_softmax.family,
    histogram.family,
    image.family,
    indexing.family,
    inference_lstm.family,
    keypoint.family,
    learning_rate.family,
    lengths.family,
    linear.family,
    loss.family,
    math.family,
    metric.family,
    network.family,
    normalization.family,
    optimizer.family,
    pooling.family,
    proposals.family,
    random_fill.family,
    random_rowwise.family,
    ranking.family,
    reduction.family,
    region.family,
    rnn_unit.family,
    roi_align.family,
    rowwise.family,
    samples.family,
    scatter.family,
    segment_reduction.family,
    sequence.family,
    sequence_mask.family,
    shape.family,
    slicing.family,
    sorting.family,
    sparse.family,
    sparse_lengths_rowwise.family,
    sparse_optimizer.family,
    statistics.family,
    strings.family,
    tensor_train.family,
)

_CONVERTERS, _EXPECTATIONS = merge(FAMILIES)


def converters() -> Mapping[str, Converter]:
    """Every covered operator type with its converter."""
    return _CONVERTERS


def expectations() -> Mapping[str, Expectation]:
    """For operator types, what their use of a blob tells about it."""
    return _EXPECTATIONS
