"""What both directions share about ONNX: types, names, metadata, fingerprints, shape inference, files.

The import may use these modules; they know no operators and no converters.
"""
