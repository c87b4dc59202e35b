"""Caffe2 nets to ONNX."""

from caffe2_frontend.convert import convert, to_onnx
from caffe2_frontend.report import Report, check

__all__ = ["Report", "check", "convert", "to_onnx"]
