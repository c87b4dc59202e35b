from caffe2_bridge.diagnostics import ConversionError, NetFormatError, OptionError
from caffe2_frontend.analysis import analyze, describe_inputs
from caffe2_frontend.checker import Report, check
from caffe2_frontend.exporter import convert, to_onnx
from caffe2_frontend.interop.files.onnx_files import save_onnx
from caffe2_frontend.interop.types import InputSpecError, TensorInfo
from caffe2_frontend.ops import register_converter, supported_operators
from caffe2_frontend.options import ExportOptions, Int8, Recompute
from caffe2_frontend.pipeline import finish
from caffe2_frontend.recurrent.stateful import NoStatesError
from caffe2_frontend.state import Export
from caffe2_frontend.targets.target import Recurrent

__version__: str

__all__ = [
    "ConversionError",
    "Export",
    "ExportOptions",
    "InputSpecError",
    "Int8",
    "NetFormatError",
    "NoStatesError",
    "OptionError",
    "Recompute",
    "Recurrent",
    "Report",
    "TensorInfo",
    "analyze",
    "check",
    "convert",
    "describe_inputs",
    "finish",
    "register_converter",
    "save_onnx",
    "supported_operators",
    "to_onnx",
]
