"""The table of contents: every family of importers, room by room."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Final

from caffe2_backend.lowering.family import Converter, Family, Inference
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

BUILT_IN: Final[Mapping[str, Converter]] = merge(FAMILIES)
# What the user's own code registers: see ``registered``.
REGISTERED: Final[dict[str, Converter]] = {}
INFERENCES: Final[dict[str, Inference]] = {}
_CONVERTERS: Final = ChainMap(REGISTERED, dict(BUILT_IN))


def converters() -> Mapping[str, Converter]:
    """Return every covered operator type with its converter."""
    return _CONVERTERS
