"""The table of contents: every family of converters, room by room."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_bridge.registry import merge
from caffe2_frontend.lowering.family import Converter, Expectation, Family
from caffe2_frontend.ops import (
    aten,
    control_flow,
    detection,
    feature,
    gradients,
    nn,
    quantized,
    sequence,
    tensor,
    training,
)
from caffe2_frontend.ops.quantized import int8_qdq
from caffe2_frontend.options import Int8
from caffe2_frontend.recurrent import gradient as recurrent_gradient
from caffe2_frontend.recurrent import network

FAMILIES: tuple[Family, ...] = (
    aten.family,
    *control_flow.FAMILIES,
    network.family,
    recurrent_gradient.family,
    *detection.FAMILIES,
    *feature.FAMILIES,
    *gradients.FAMILIES,
    *nn.FAMILIES,
    *quantized.FAMILIES,
    *sequence.FAMILIES,
    *tensor.FAMILIES,
    *training.FAMILIES,
)

_CONVERSIONS = merge(FAMILIES)
_CONVERTERS = {op_type: known.convert for op_type, known in _CONVERSIONS.items()}
_QDQ_CONVERTERS = {**_CONVERTERS, **{op_type: known.convert for op_type, known in int8_qdq.family.handlers.items()}}
_EXPECTATIONS = {op_type: known.expects for op_type, known in _CONVERSIONS.items() if known.expects is not None}


def supported_operators() -> Mapping[str, tuple[str, ...]]:
    """The Caffe2 operator types that convert to ONNX, sorted, by the name of their family."""
    families = sorted(FAMILIES, key=lambda family: family.name)
    return {family.name: tuple(sorted(family.handlers)) for family in families}


def converters(int8: Int8 = "exact") -> Mapping[str, Converter]:
    """Every covered operator type with its converter, for a form of Int8 operators."""
    return _CONVERTERS if int8 == "exact" else _QDQ_CONVERTERS


def expectations() -> Mapping[str, Expectation]:
    """For operator types, what is known of a blob that they read."""
    return _EXPECTATIONS
