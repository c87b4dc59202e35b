"""The table of contents: one family of gradient makers a file."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_bridge.gradients.family import Family, Rule, merge
from caffe2_bridge.gradients.ops import (
    activation,
    constant,
    control,
    convolution,
    elementwise,
    feature,
    indexing,
    linear,
    loss,
    math,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    segment_reduction,
    sequence,
    shape,
)
from caffe2_bridge.gradients.ops import copy as copy_ops

FAMILIES: tuple[Family, ...] = (
    activation.family,
    constant.family,
    control.family,
    convolution.family,
    copy_ops.family,
    elementwise.family,
    feature.family,
    indexing.family,
    linear.family,
    loss.family,
    math.family,
    normalization.family,
    pooling.family,
    quantization.family,
    recurrent.family,
    reduction.family,
    segment_reduction.family,
    sequence.family,
    shape.family,
)

_RULES = merge(FAMILIES)


def rules() -> Mapping[str, Rule]:
    """Every operator type that has a gradient, or none that flows, with its rule."""
    return _RULES
