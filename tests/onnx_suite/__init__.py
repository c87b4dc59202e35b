"""ONNX's backend test suite, run through this project's importer."""
