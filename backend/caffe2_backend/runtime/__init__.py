"""Running nets on onnxruntime."""
