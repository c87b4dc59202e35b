"""The table of contents: every family of gradient makers, room by room."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_bridge.gradients.family import Family, Rule
from caffe2_bridge.gradients.ops import nn, sequence, tensor
from caffe2_bridge.registry import merge

FAMILIES: tuple[Family, ...] = (*nn.FAMILIES, *sequence.FAMILIES, *tensor.FAMILIES)

_RULES = merge(FAMILIES)


def rules() -> Mapping[str, Rule]:
    """Every operator type that has a gradient, or none that flows, with its rule."""
    return _RULES
