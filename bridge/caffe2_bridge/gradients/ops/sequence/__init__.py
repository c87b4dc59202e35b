"""Gradient makers of sequence, segment, recurrent and control-flow operators."""

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.ops.sequence import (
    control_flow,
    feature,
    recurrent,
    segment_reduction,
    sequence,
)

FAMILIES: tuple[Family, ...] = (
    control_flow.family,
    feature.family,
    recurrent.family,
    segment_reduction.family,
    sequence.family,
)
