"""Sides that do not count beside two better witnesses that agree: one that runs the net, and onnxruntime.

The reference evaluator of onnx has faults of its own. Where onnxruntime and real Caffe2, or else another evaluator of
the net, compute the same, neither a difference from it nor its failure counts. Beside real Caffe2 and onnxruntime, the
evaluator of the net that nobody asked for does not count either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from caffe2_validation.report import BlobResult
from caffe2_validation.sides import Side

_WEAK: Final = "onnx-reference"
_ONNXRUNTIME: Final = "onnxruntime-"


def witnesses(sides: Sequence[Side]) -> tuple[str, str] | None:
    """Return the labels of real Caffe2, or else an evaluator of the net, and of onnxruntime; None unless both exist."""
    evaluator = next((side.label for side in sides if side.is_evaluator), None)
    net = next((side.label for side in sides if side.is_caffe2), evaluator)
    other = next((side.label for side in sides if side.runtime.name.startswith(_ONNXRUNTIME)), None)
    return None if net is None or other is None else (net, other)


def weaker(sides: Sequence[Side], pair: tuple[str, str]) -> set[str]:
    """Return the labels of the sides that do not count where the ``pair`` of witnesses agrees."""
    return {side.label for side in sides if side.label not in pair and (side.runtime.name == _WEAK or side.is_optional)}


def outvoted(result: BlobResult, pair: tuple[str, str]) -> BlobResult:
    """Return the result, as one that does not count."""
    reason = f"{result.difference.reason} (outvoted: {' and '.join(pair)} agree)"
    return replace(result, difference=replace(result.difference, reason=reason), outvoted=True)
