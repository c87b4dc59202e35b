"""ONNX to Caffe2 nets, running nets on onnxruntime, validation, the command line."""
