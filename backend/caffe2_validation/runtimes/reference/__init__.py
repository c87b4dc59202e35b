"""The operators of onnx's reference evaluator that deviate from ONNX's text, corrected (:mod:`..onnx_reference`)."""
