"""Folders that serve a model: its ONNX file, a server's configuration, a sample with expected outputs, and a card.

:func:`package` writes one for Triton, KServe, a web page or a mobile application, as ``caffe2-bridge package`` does.
Reading order: ``contents`` (what every folder holds), ``layouts`` (where each server wants it), ``card``.
"""

from caffe2_deploy.contents import Contents, gather
from caffe2_deploy.layouts import LAYOUTS, package

__all__ = ["LAYOUTS", "Contents", "gather", "package"]
