"""Small quantized models, made by onnxruntime's static quantizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

_CNN = """
<ir_version: 8, opset_import: ["": 17]> g (float[N,3,16,16] x) => (float[N,5] y) {
   a = Conv<kernel_shape = [3,3], pads = [1,1,1,1]>(x, w0, b0)
   b = Relu(a)
   c = MaxPool<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(b)
   d = Conv<kernel_shape = [3,3], pads = [1,1,1,1], group = 8>(c, w1, b1)
   e = Relu(d)
   f = Conv<kernel_shape = [1,1]>(e, w2, b2)
   h = Add(f, c)
   i = Relu(h)
   j = Conv<kernel_shape = [3,3], strides = [2,2], pads = [1,1,1,1]>(i, w3)
   k = Concat<axis = 1>(j, j)
   l = GlobalAveragePool(k)
   m = Flatten(l)
   y = Gemm<transB = 1>(m, w4, b4)
}
"""
_SHAPES = {
    "w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 1, 3, 3), "b1": (8,), "w2": (8, 8, 1, 1), "b2": (8,),
    "w3": (6, 8, 3, 3), "w4": (5, 12), "b4": (5,),
}  # fmt: skip


def small_cnn() -> onnx.ModelProto:
    """Return a CNN of random weights: convolutions (one for each channel), pools, a sum, a Concat, a layer."""
    rng, model = np.random.default_rng(5), parser.parse_model(_CNN)
    for name, shape in _SHAPES.items():
        scale = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0.1
        model.graph.initializer.append(
            numpy_helper.from_array((rng.normal(size=shape) * scale).astype(np.float32), name)
        )
    return model


def calibrated(
    model: onnx.ModelProto,
    folder: Path,
    activations: str,
    weights: str,
    *,
    per_channel: bool = False,
    form: str = "QDQ",
) -> onnx.ModelProto:
    """Return a model as onnxruntime quantizes it; types are its names.

    ``form``: ``QDQ``, with QuantizeLinear and DequantizeLinear, or ``QOperator``, with operators on quantized tensors.
    """
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no annotations
        """Random images."""

        def __init__(self) -> None:
            self.rng, self.left = np.random.default_rng(6), 8

        def get_next(self) -> dict[str, Any] | None:
            self.left -= 1
            return {"x": self.rng.normal(size=(2, 3, 16, 16)).astype(np.float32)} if self.left >= 0 else None

    onnx.save(model, folder / "float.onnx")
    quantization.quantize_static(
        folder / "float.onnx", folder / "quantized.onnx", Reader(), quant_format=quantization.QuantFormat[form],
        activation_type=quantization.QuantType[activations], weight_type=quantization.QuantType[weights],
        per_channel=per_channel,
    )  # fmt: skip
    return onnx.load(folder / "quantized.onnx")  # noqa: TID251 - a file that the test made
