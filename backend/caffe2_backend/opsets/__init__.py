"""Conversion of models of early opsets to later ones, where ONNX's own converter has no adapter or a wrong one."""

from caffe2_backend.opsets.upgrade import UpgradeError, upgrade

__all__ = ["UpgradeError", "upgrade"]
