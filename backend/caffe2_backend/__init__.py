"""ONNX to Caffe2 nets, running nets on onnxruntime, validation, the command line."""

from caffe2_backend.importer import to_netdef
from caffe2_backend.onnx_backend import prepare, run_model, run_node, supports_device
from caffe2_backend.runtime import Predictor, Workspace
from caffe2_backend.validation import validate

__all__ = ["Predictor", "Workspace", "prepare", "run_model", "run_node", "supports_device", "to_netdef", "validate"]
