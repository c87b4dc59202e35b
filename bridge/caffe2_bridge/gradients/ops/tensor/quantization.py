"""Gradient of the decoding of quantized values."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("quantization")


@family.differentiates("QuantDecode")
def decode(op: Forward) -> None:
    """QuantDecodeGradient(codebook, codes..., dY...) -> dcodebook."""
    outputs = range(len(op.outputs))
    op.emit("QuantDecodeGradient", [*op.inputs, *map(op.dy, outputs)], [op.dx(0)])
