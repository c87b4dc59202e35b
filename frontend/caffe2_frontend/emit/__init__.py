"""Emitters of ONNX subgraphs that several families of converters share."""
