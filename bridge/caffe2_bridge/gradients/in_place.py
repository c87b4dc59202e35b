"""Which gradient operators may overwrite a gradient that they read."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_FIRST: Final = ((0, 0),)
_SECOND: Final = ((1, 0),)
_EITHER_OUTPUT: Final = ((0, 0), (0, 1))

# The (input, output) pairs that real Caffe2's schemas allow to be one blob.
_ALLOWED: Final = {
    **dict.fromkeys(
        (
            "AffineChannelGradient", "CbrtGradient", "CopyRowsToTensorGradient", "Div", "DivGradient", "DropoutGrad",
            "ExpandDims", "MeanGradient", "MergeDim", "NanCheck", "Negative", "Reshape", "RsqrtGradient", "Scale",
            "SquareRootDivide", "Squeeze",
        ),
        _FIRST,
    ),
    **dict.fromkeys(
        (
            "ClipGradient", "EluGradient", "HardSigmoidGradient", "LeakyReluGradient", "ReciprocalGradient",
            "ReluGradient", "ReluNGradient", "SeluGradient", "SigmoidGradient", "SoftplusGradient", "SoftsignGradient",
            "TanhGradient", "ThresholdedReluGradient",
        ),
        _SECOND,
    ),
    **dict.fromkeys(("AddGradient", "MulGradient", "SubGradient"), _EITHER_OUTPUT),
    "Mul": ((0, 0), (1, 0)),
    "SwishGradient": ((2, 0),),
}  # fmt: skip


def may_write_over(op: OperatorDef, name: str) -> bool:
    """Return whether an operator may have ``name`` both as input and as output; true if it is not both."""
    inputs = [i for i, blob in enumerate(op.input) if blob == name]
    outputs = [i for i, blob in enumerate(op.output) if blob == name]
    allowed = _ALLOWED.get(op.type, ())
    return all((i, o) in allowed for i in inputs for o in outputs)
