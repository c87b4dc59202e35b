"""The gradient makers of all operator types."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_bridge.gradients.family import Family, Rule
from caffe2_bridge.gradients.ops import nn, sequence, tensor
from caffe2_bridge.registry import merge

FAMILIES: tuple[Family, ...] = (*nn.FAMILIES, *sequence.FAMILIES, *tensor.FAMILIES)

_RULES = merge(FAMILIES)


def rules() -> Mapping[str, Rule]:
    """Return the rule of each operator type that has a gradient, or through which no gradient flows."""
    return _RULES
