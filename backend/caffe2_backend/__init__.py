"""ONNX models to Caffe2 nets, running nets on onnxruntime, validation, the command line.

:func:`to_netdef` converts an ONNX model; :class:`Predictor` runs a model, :class:`Workspace` nets on named blobs;
:func:`validate` compares runtimes. ``caffe2_backend.workspace`` has Caffe2's own names. The errors of all of them are
exported here. :func:`install_caffe2` makes Caffe2's own Python files importable.
"""

import caffe2_frontend  # noqa: F401 - it defers SymPy, before a module here imports onnx_ir
from caffe2_bridge.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
