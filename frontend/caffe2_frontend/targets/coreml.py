"""Core ML as onnxruntime's provider runs it (ML programs), by the public list of that provider; it was not run."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from caffe2_frontend.targets.target import Target

_OPERATORS: Final = (
    "Add", "ArgMax", "AveragePool", "Cast", "Ceil", "Clip", "Concat", "Conv", "ConvTranspose", "Cos",
    "DepthToSpace", "Div", "Elu", "Erf", "Exp", "GatherND", "Gelu", "Gemm", "GlobalAveragePool",
    "GlobalMaxPool", "GridSample", "GroupNormalization", "HardSigmoid", "Identity", "InstanceNormalization",
    "LayerNormalization", "LeakyRelu", "MatMul", "Max", "MaxPool", "Mul", "PRelu", "Pow", "Range", "Reciprocal",
    "ReduceMax", "ReduceMean", "ReduceSum", "Relu", "Reshape", "Resize", "Round", "Shape", "Sigmoid", "Sin",
    "Slice", "Softmax", "Softplus", "Split", "Sqrt", "Squeeze", "Sub", "Tanh", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip

COREML: Final = Target(
    "coreml",
    "the public list of operators of onnxruntime's Core ML provider; not run",
    recurrent="portable",
    only=frozenset(_OPERATORS),
    constants={"Slice": (1, 2, 3, 4), "Split": (1,), "Gemm": (1,)},
    dtypes=frozenset({ir.DataType.STRING, ir.DataType.DOUBLE}),
)
