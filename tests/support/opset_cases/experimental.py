"""Operators of ONNX 1.2 and earlier that ONNX dropped, and onnxruntime has still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from support.opset_cases.spelling import Expected, F, Spelling, numbers

_LAST: Final = 19  # the last opset that is converted
_IMAGES: Final = numbers(2, 3, 5, 6)
_BIAS: Final = np.array([-1, 2, 3], F).reshape(3, 1, 1)


def _normalized(*axes: int, scaled: bool = True) -> Expected:
    def normalize(x: Any) -> Any:
        centered = x - x.mean(axes, keepdims=True)
        return centered / x.std(axes, keepdims=True) if scaled else centered

    return normalize


def spellings() -> Iterator[Spelling]:
    """Yield every spelling."""
    functions: dict[str, tuple[int, Expected]] = {
        "ImageScaler<bias = [-1.0, 2.0, 3.0], scale = 0.5>": (_LAST, lambda x: x * F(0.5) + _BIAS),
        "ImageScaler<bias = [-1.0, 2.0, 3.0]>": (_LAST, lambda x: x + _BIAS),
        "Affine<alpha = 2.0, beta = -1.0>": (_LAST, lambda x: 2 * x - 1),
        "Scale<scale = 0.25>": (_LAST, lambda x: x * F(0.25)),
        "Scale": (_LAST, lambda x: x),
        "ScaledTanh<alpha = 1.5, beta = 0.5>": (_LAST, lambda x: F(1.5) * np.tanh(x * F(0.5))),
        "ParametricSoftplus<alpha = 1.5, beta = 0.5>": (_LAST, lambda x: F(1.5) * np.log1p(np.exp(x * F(0.5)))),
        "Crop<border = [1, 0, 2, 3]>": (_LAST, lambda x: x[:, :, 0:2, 1:4]),
        "Crop<border = [1, 2, 0, 0]>": (_LAST, lambda x: x[:, :, 2:, 1:]),
        "Crop<border = [1, 2, 0, 0], scale = [2, 4]>": (_LAST, lambda x: x[:, :, 2:4, 1:5]),
        "ThresholdedRelu<alpha = 0.25>": (9, lambda x: np.where(x > F(0.25), x, F(0))),
        "ThresholdedRelu": (9, lambda x: np.where(x > 1, x, F(0))),
        "MeanVarianceNormalization": (8, _normalized(2, 3)),
        "MeanVarianceNormalization<across_channels = 1>": (8, _normalized(1, 2, 3)),
        "MeanVarianceNormalization<normalize_variance = 0>": (8, _normalized(2, 3, scaled=False)),
    }
    for node, (last, expected) in functions.items():
        yield Spelling(1, last, "float[2,3,5,6] x", f"y = {node}(x)", {"x": _IMAGES}, expected=expected)
