"""Running nets on onnxruntime."""

from caffe2_backend.runtime.choices import Choices
from caffe2_backend.runtime.plan import Plan, make_plan
from caffe2_backend.runtime.predictor import Predictor
from caffe2_backend.runtime.steps import Step, Trace
from caffe2_backend.runtime.values import DeviceTensor, Int8Tensor
from caffe2_backend.runtime.workspace import Workspace

__all__ = ["Choices", "DeviceTensor", "Int8Tensor", "Plan", "Predictor", "Step", "Trace", "Workspace", "make_plan"]
