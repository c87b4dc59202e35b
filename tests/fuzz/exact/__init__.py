"""A differential fuzzer: operators and small nets in real Caffe2, and in ONNX on onnxruntime."""
