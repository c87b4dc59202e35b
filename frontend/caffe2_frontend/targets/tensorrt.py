"""TensorRT, by the public list of its ONNX parser; it was not run."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_UNLISTED: Final = "the list of its ONNX parser says that it is not supported"
_LACKED: Final = (
    "BitShift", "Compress", "ConcatFromSequence", "ConvInteger", "Det", "DynamicQuantizeLinear", "Hardmax",
    "IsInf", "MatMulInteger", "MaxRoiPool", "MaxUnpool", "MeanVarianceNormalization", "Mod", "Multinomial",
    "NegativeLogLikelihoodLoss", "NonZero", "OneHot", "QLinearConv", "QLinearMatMul", "RandomNormal",
    "RandomNormalLike", "Reciprocal", "RoiAlign", "SequenceAt", "SequenceConstruct",
    "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "Shrink", "SoftmaxCrossEntropyLoss",
    "SplitToSequence", "StringNormalizer", "TfIdfVectorizer", "Unique",
)  # fmt: skip

# The list is that of TensorRT 8.4: opset 13.
TENSORRT: Final = Target(
    "tensorrt",
    "the public list of operators of onnx-tensorrt 8.4; not run",
    opset=13,
    recurrent="portable",
    lacks=dict.fromkeys(_LACKED, _UNLISTED),
    constants={"CumSum": (1,), "Slice": (3,), "Squeeze": (1,), "TopK": (1,), "Unsqueeze": (1,)},
    dtypes=frozenset({ir.DataType.STRING, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64}),
)
