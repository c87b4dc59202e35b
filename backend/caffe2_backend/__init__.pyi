from caffe2_backend.caffe2_python import install_caffe2
from caffe2_backend.importer import to_netdef
from caffe2_backend.onnx_backend import prepare, run_model, run_node, supports_device
from caffe2_backend.runtime import DeviceTensor, NoBlobError, Predictor, Session, SessionOptions, Workspace
from caffe2_backend.validation import ValidationOptions, ValidationReport, validate
from caffe2_bridge import Int8Tensor
from caffe2_bridge.diagnostics import BridgeError, ConversionError, NetFormatError, OptionError, RunError

__all__ = [
    "BridgeError",
    "ConversionError",
    "DeviceTensor",
    "Int8Tensor",
    "NetFormatError",
    "NoBlobError",
    "OptionError",
    "Predictor",
    "RunError",
    "Session",
    "SessionOptions",
    "ValidationOptions",
    "ValidationReport",
    "Workspace",
    "install_caffe2",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
    "to_netdef",
    "validate",
]
