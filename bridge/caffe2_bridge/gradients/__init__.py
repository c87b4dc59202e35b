"""Generate the gradient operators of Caffe2 operators and nets, as Caffe2 does, without Caffe2.

``registry`` differentiates one operator with the rules in ``ops``; ``net`` and ``backward`` run the forward pass in
reverse, check that the blobs that gradients need were not overwritten (``versions``), and sum the gradients of a blob
that several operators read (``accumulate``). Errors are ``GradientError``, a ``caffe2_bridge.BridgeError``.
"""

from caffe2_bridge.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
