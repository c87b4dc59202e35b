"""The table of contents: every family of converters, room by room."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_frontend.lowering.family import Converter, Expectation, Family, merge
from caffe2_frontend.ops import control_flow, detection, feature, nn, quantized, sequence, tensor, training
from caffe2_frontend.recurrent import network

FAMILIES: tuple[Family, ...] = (
    control_flow.family,
    network.family,
    *detection.FAMILIES,
    *feature.FAMILIES,
    *nn.FAMILIES,
    *quantized.FAMILIES,
    *sequence.FAMILIES,
    *tensor.FAMILIES,
    *training.FAMILIES,
)

_CONVERTERS, _EXPECTATIONS = merge(FAMILIES)


def converters() -> Mapping[str, Converter]:
    """Every covered operator type with its converter."""
    return _CONVERTERS


def expectations() -> Mapping[str, Expectation]:
    """For operator types, what their use of a blob tells about it."""
    return _EXPECTATIONS
