"""Lowering of Caffe2 operators to ONNX nodes: what a converter sees, scopes, shape inference."""
