"""Lowering of ONNX nodes to Caffe2 operators: what an importer sees, and nodes carried unchanged."""
