"""Conversion of models to earlier opsets, which ONNX's own version converter lacks adapters for."""

from caffe2_frontend.opsets.downgrade import InexpressibleError, downgrade

__all__ = ["InexpressibleError", "downgrade"]
