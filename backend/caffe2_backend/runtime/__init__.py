"""Running nets on onnxruntime."""

from caffe2_backend.runtime.blob_workspace import Workspace
from caffe2_backend.runtime.partition import Plan, make_plan
from caffe2_backend.runtime.predictor import Predictor
from caffe2_backend.runtime.session_options import Choices
from caffe2_backend.runtime.stepper import Step, Trace
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor

__all__ = ["Choices", "DeviceTensor", "Int8Tensor", "Plan", "Predictor", "Step", "Trace", "Workspace", "make_plan"]
