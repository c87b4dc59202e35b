"""The emitters of operators, by family."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from caffe2_bridge.registry import merge
from caffe2_torch.source.op import Emit

FAMILIES: Final = (
    "activation", "arithmetic", "detection", "image", "layers", "lengths", "quantized", "recurrent", "reduction",
    "segments", "shape", "sparse",
)  # fmt: skip


@cache
def emitters() -> dict[str, Emit]:
    """Return every operator type that has an emitter."""
    return merge(import_module(f"{__name__}.{name}").family for name in FAMILIES)
