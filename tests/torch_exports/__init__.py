"""PyTorch's recurrent modules, exported to ONNX by its own exporters, imported, and run."""
