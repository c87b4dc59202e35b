"""Int8 tensors: Caffe2's arithmetic to the last bit.

There are two implementations in Caffe2: QNNPACK and, with the engine DNNLOWP, FBGEMM. "Steps" are multiples of the
output's scale.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import torch

from caffe2_torch.evaluation.op import Op
from caffe2_torch.functions.int8 import Quantized

_SCALE_OF_NO_RANGE: Final = np.float32(0.1)
_LEAST_CHOSEN_SCALE: Final = np.float32(6.1e-5)


class Scaling(NamedTuple):
    """A scale and a zero point."""

    scale: float
    zero_point: int


def uses_dnnlowp(op: Op) -> bool:
    """Whether the operator's engine is DNNLOWP."""
    return "DNNLOWP" in op.view.engine


def stated(op: Op, *, dnnlowp: bool = False) -> Scaling:
    """Return the output's scale and zero point by the arguments; ``dnnlowp``: whether that engine heeds them too."""
    if uses_dnnlowp(op) and (not dnnlowp or "Y_scale" not in op.args):
        op.refuse("the operator with engine DNNLOWP computes other results, or its output scale depends on the data")
    scale, zero = op.args.number("Y_scale", default=1.0), op.args.integer("Y_zero_point", default=0)
    if not 0 < scale < math.inf:
        op.refuse(f"Y_scale must be positive and finite, not {scale}")
    return Scaling(scale, zero)


def stated_for_bytes(op: Op, *, dnnlowp: bool = False) -> Scaling:
    """Return the stated scaling, with a zero point that is a byte."""
    how = stated(op, dnnlowp=dnnlowp)
    if not 0 <= how.zero_point <= 255:
        op.refuse(f"Y_zero_point must be between 0 and 255, not {how.zero_point}")
    return how


def preserved(op: Op, x: Quantized) -> Scaling:
    """Return the scaling of ``x``, which the arguments of an operator that only moves bytes must repeat."""
    how = stated(op)
    if np.float32(how.scale) != np.float32(x.scale) or how.zero_point != x.zero_point:
        op.refuse(f"Y_scale and Y_zero_point must be those of the input, {x.scale:.9g} and {x.zero_point}")
    return Scaling(x.scale, x.zero_point)


def image(op: Op, index: int) -> Quantized:
    """Return operand ``index``, which must be bytes."""
    x = op.quantized(index)
    if x.data.dtype != torch.uint8:
        op.refuse(f"input {index} must be uint8")
    return x


def quantize_dnnlowp(x: torch.Tensor, how: Scaling) -> Quantized:
    """Quantize reals as DNNLOWP does: the zero point is added before rounding, halves to even."""
    inverse = float(np.float32(1) / np.float32(how.scale))
    steps = (x.to(torch.float64) * inverse + how.zero_point).to(torch.float32)
    return Quantized(torch.round(steps).clamp(0, 255).to(torch.uint8), how.scale, how.zero_point)


def relu_scaling(how: Scaling) -> Scaling:
    """Return what DNNLOWP gives a result followed by a Relu: all bytes represent reals from zero on."""
    largest = np.float32(how.scale) * np.float32(255 - how.zero_point)
    scale = largest / np.float32(255) if largest else _SCALE_OF_NO_RANGE
    return Scaling(float(max(scale, _LEAST_CHOSEN_SCALE)), 0)
