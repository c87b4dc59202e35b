"""Values that stand for learnt floats."""

from __future__ import annotations

from caffe2_bridge.gradients.family import Family
from caffe2_bridge.gradients.forward import Forward

family = Family("quantization")


@family.differentiates("QuantDecode")
def decode(op: Forward) -> None:
    """Inputs are a code book and any number of codes; the code book has the gradient."""
    outputs = range(len(op.outputs))
    op.emit("QuantDecodeGradient", [*op.inputs, *map(op.dy, outputs)], [op.dx(0)])
