"""Caffe2 nets to ONNX.

:func:`to_onnx` converts a net, :func:`check` reports what keeps it from being converted, and :func:`save_onnx` writes a
model. The conversion can be interrupted between its halves: :func:`analyze` and :func:`finish`.
"""

from caffe2_bridge.lazy_exports import lazy_exports
from caffe2_frontend.interop.deferred_sympy import defer_sympy

defer_sympy()

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
