"""The table of contents: every family of importers, room by room."""

from __future__ import annotations

from collections.abc import Mapping

from caffe2_backend.lowering.family import Converter, Family
from caffe2_backend.ops import control_flow, nn, tensor
from caffe2_backend.recurrent import cells, scan
from caffe2_bridge.registry import merge

FAMILIES: tuple[Family, ...] = (
    cells.family,
    control_flow.family,
    scan.family,
    *nn.FAMILIES,
    *tensor.FAMILIES,
)

_CONVERTERS = merge(FAMILIES)


def converters() -> Mapping[str, Converter]:
    """Return every covered operator type with its converter."""
    return _CONVERTERS
