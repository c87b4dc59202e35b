"""Quantized parts of ONNX models as Caffe2's Int8 operators."""
