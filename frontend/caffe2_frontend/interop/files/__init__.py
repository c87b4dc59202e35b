"""ONNX models as protobufs and files, with and without their weights."""
