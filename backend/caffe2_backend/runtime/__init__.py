"""Running nets on onnxruntime."""

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.calls.predictor import Predictor
from caffe2_backend.runtime.partition import DevicePlan, make_plan
from caffe2_backend.runtime.sessions.session import Session
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.stepping.stepper import Trace, TraceStep
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor, NoBlobError
from caffe2_bridge.diagnostics import ConversionError, RunError

__all__ = [
    "ConversionError",
    "DevicePlan",
    "DeviceTensor",
    "Int8Tensor",
    "NoBlobError",
    "Predictor",
    "RunError",
    "Session",
    "SessionOptions",
    "Trace",
    "TraceStep",
    "Workspace",
    "make_plan",
]
