"""Read, write, analyze and edit Caffe2 nets without Caffe2.

Errors are subclasses of :class:`BridgeError`: ``NetFormatError`` for files and protobufs, ``ConversionError`` for nets,
which holds the diagnostics, and ``RunError``.
"""

import warnings
from typing import Any

from caffe2_bridge.lazy_exports import lazy_exports

_load, __dir__, __all__ = lazy_exports(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a public name or a submodule; ``export`` is the deprecated name of :func:`export_mobile`."""
    if name == "export":
        message = "caffe2_bridge.export is deprecated: use caffe2_bridge.export_mobile"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        name = "export_mobile"
    return _load(name)
