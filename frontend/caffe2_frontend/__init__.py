"""Caffe2 nets to ONNX."""

from caffe2_frontend.checker import Report, check
from caffe2_frontend.exporter import convert, to_onnx

__all__ = ["Report", "check", "convert", "to_onnx"]
