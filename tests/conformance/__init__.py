"""Conformance: recorded Caffe2 runs, converted to ONNX, executed, and compared with what real Caffe2 computed."""
