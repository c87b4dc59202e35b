"""Converters by operator type. The index says where each is; its module is imported when a net needs it."""

from caffe2_bridge.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
