"""How passes rewrite ONNX nodes: read one, emit others, and put these in its place."""
