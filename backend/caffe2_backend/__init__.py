"""ONNX to Caffe2 nets, running nets on onnxruntime, validation, the command line."""

from caffe2_backend.base import prepare, run_model, run_node, supports_device
from caffe2_backend.convert import to_netdef
from caffe2_backend.runtime import Predictor, Workspace
from caffe2_backend.validate import validate

__all__ = ["Predictor", "Workspace", "prepare", "run_model", "run_node", "supports_device", "to_netdef", "validate"]
