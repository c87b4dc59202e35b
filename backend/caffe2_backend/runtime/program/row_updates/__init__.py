"""Updates of rows of tables in one pass over the rows, by compiled code, after what onnxruntime computes of a step."""
