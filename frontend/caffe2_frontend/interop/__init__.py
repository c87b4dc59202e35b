"""Everything that knows ONNX but no operator: types, metadata, fingerprints, files, embedded ONNX nodes."""
