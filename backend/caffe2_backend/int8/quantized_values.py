"""Quantized values of ONNX models: the scales and zero points of QuantizeLinear and DequantizeLinear nodes.

Caffe2's Int8 tensors are unsigned. Signed bytes become unsigned ones of the same reals: 128 is added to the bytes and
to the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.types import Quantization

Array = np.ndarray[Any, Any]

_OFFSETS: Final = {ir.DataType.UINT8: 0, ir.DataType.INT8: 128}


@dataclass(frozen=True)
class Int8Tensor:
    """An Int8 tensor: the value of its bytes, which of an image has the channels last, and its quantization."""

    value: ir.Value
    how: Quantization


def is_quantize(node: ir.Node | None) -> bool:
    """Whether a node is ONNX's QuantizeLinear."""
    return node is not None and node.op_type == "QuantizeLinear" and is_standard(node)


def is_dequantize(node: ir.Node | None) -> bool:
    """Whether a node is ONNX's DequantizeLinear."""
    return node is not None and node.op_type == "DequantizeLinear" and is_standard(node)


def known(value: ir.Value | None) -> Array | None:
    """Return the contents of an initializer, None for any other value."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def quantization_of(node: ir.Node) -> Quantization | None:
    """Return the quantization that a QuantizeLinear or DequantizeLinear states, as one of unsigned bytes.

    None where scale and zero point are not known to be one number each, or the type is not a byte's.
    """
    quantized = node.outputs[0] if is_quantize(node) else node.inputs[0]
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = quantized.dtype if quantized is not None and zero is None else zero and zero.dtype
    scales, zeros = known(node.inputs[1]), np.zeros(1) if zero is None else known(zero)
    if dtype not in _OFFSETS or scales is None or zeros is None or scales.size != 1 or zeros.size != 1:
        return None
    scale = float(scales.item())
    if scales.dtype != np.float32 or not 0 < scale < np.inf:
        return None
    return Quantization(scale, int(zeros.item()) + _OFFSETS[dtype])


def known_bytes(value: ir.Value | None) -> tuple[Array, Quantization] | None:
    """Return the unsigned bytes and the quantization of what a DequantizeLinear makes of an initializer (weights)."""
    node = None if value is None else value.producer()
    if node is None or not is_dequantize(node):
        return None
    how, array = quantization_of(node), known(node.inputs[0])
    if how is None or array is None:
        return None
    return (array.astype(np.int16) + (128 if array.dtype == np.int8 else 0)).astype(np.uint8), how


def known_reals(value: ir.Value | None) -> Array | None:
    """Return the floats of an initializer, or of a DequantizeLinear of one (biases); None for any other value."""
    node = None if value is None else value.producer()
    if node is None or not is_dequantize(node):
        return known(value)
    array, scale = known(node.inputs[0]), known(node.inputs[1])
    zero = known(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.zeros(1)
    if array is None or scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    return np.asarray((array.astype(np.float64) - zero.item()) * scale.item())
