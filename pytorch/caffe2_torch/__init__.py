"""Caffe2 nets as PyTorch modules.

:func:`to_torch` makes a ``torch.nn.Module`` of a net. It shares no conversion with the export to ONNX, so that a result
on which both agree was computed in two ways.
"""

from caffe2_bridge.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
