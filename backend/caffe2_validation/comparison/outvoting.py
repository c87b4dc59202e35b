"""The reference evaluator of onnx, which has faults of its own, beside two witnesses that agree.

Where real Caffe2 and onnxruntime compute the same, neither a difference from the evaluator nor its failure counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from caffe2_validation.report import BlobResult
from caffe2_validation.sides import Side

WEAK: Final = "onnx-reference"
_ONNXRUNTIME: Final = "onnxruntime-"


def witnesses(sides: Sequence[Side]) -> tuple[str, str] | None:
    """The labels of real Caffe2 and of onnxruntime; None unless both are there."""
    caffe2 = next((side.label for side in sides if side.is_caffe2), None)
    other = next((side.label for side in sides if side.runtime.name.startswith(_ONNXRUNTIME)), None)
    return None if caffe2 is None or other is None else (caffe2, other)


def outvoted(result: BlobResult, pair: tuple[str, str]) -> BlobResult:
    """The result, as one that does not count."""
    reason = f"{result.difference.reason} (outvoted: {' and '.join(pair)} agree)"
    return replace(result, difference=replace(result.difference, reason=reason), outvoted=True)
