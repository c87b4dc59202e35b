from caffe2_bridge.diagnostics import ConversionError, NetFormatError, OptionError, RunError
from caffe2_bridge.netdef.parameters import Int8Tensor
from caffe2_torch.exporter import to_torch
from caffe2_torch.module import NetModule
from caffe2_torch.ops import supported_operators
from caffe2_torch.source_export import export_torch

__version__: str

__all__ = [
    "ConversionError",
    "Int8Tensor",
    "NetFormatError",
    "NetModule",
    "OptionError",
    "RunError",
    "export_torch",
    "supported_operators",
    "to_torch",
]
