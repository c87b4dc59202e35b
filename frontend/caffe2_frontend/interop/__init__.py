"""What both directions share about ONNX: its operators, types, names, metadata, shape inference, rewriting, files.

The import may use these modules; they know no converters.
"""
