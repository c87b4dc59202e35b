"""Models of a folder through the import, in both modes: scripts/onnx-models."""
