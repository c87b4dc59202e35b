"""What travels through the import pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.types import Quantization

Foreign = Literal["error", "carry"]
# One device for all that can run there, or the device of each named input or parameter.
Placement = str | Mapping[str, str] | None

# What the converters read: older models are brought to it. Later ones are read as they are.
WORKING_OPSET: Final = 20


@dataclass(frozen=True)
class Import:
    """The state of one import. ``model`` belongs to the import; weights are shared by reference, never changed.

    ``lowers`` is false where all operators of the model travel as they are, since its opset could not be converted.
    ``restored`` counts the operators of Caffe2 that came back as themselves, by type; ``quantized`` says which inputs
    and parameters are then Int8 tensors.
    """

    model: ir.Model
    foreign: Foreign = "error"
    device: Placement = None
    lowers: bool = True
    net: NetDef | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    restored: Mapping[str, int] = field(default_factory=dict)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()
