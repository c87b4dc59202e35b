from caffe2_backend.importer import to_netdef
from caffe2_backend.onnx_backend import prepare, run_model, run_node, supports_device
from caffe2_backend.ops.registered import register_importer
from caffe2_backend.picture import picture_html
from caffe2_backend.runtime import DeviceTensor, NoBlobError, Predictor, Session, SessionOptions, Workspace
from caffe2_backend.training.api import TrainingResult, train
from caffe2_bridge import Int8Tensor
from caffe2_bridge.diagnostics import BridgeError, ConversionError, NetFormatError, OptionError, RunError
from caffe2_compat import install_caffe2
from caffe2_validation import ValidationOptions, ValidationReport, validate

__version__: str

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
    "TrainingResult",
    "ValidationOptions",
    "ValidationReport",
    "Workspace",
    "install_caffe2",
    "picture_html",
    "prepare",
    "register_importer",
    "run_model",
    "run_node",
    "supports_device",
    "to_netdef",
    "train",
    "validate",
]
