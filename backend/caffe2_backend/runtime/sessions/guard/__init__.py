"""Checks of operands with which onnxruntime ends the process."""

from caffe2_backend.runtime.sessions.guard.guard import Guard
from caffe2_backend.runtime.sessions.guard.nodes import failure_of

__all__ = ["Guard", "failure_of"]
