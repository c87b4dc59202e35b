"""The state of the import pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import onnx_ir as ir

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.model_fingerprint import model_fingerprint
from caffe2_frontend.interop.types import Quantization

Foreign = Literal["error", "carry"]
# One device for all that can run there, or the device of each named input or parameter.
Placement = str | Mapping[str, str] | None

# What the converters read: older models are brought to it. Later ones are read as they are.
WORKING_OPSET: Final = 20


@dataclass(frozen=True)
class Import:
    """The state of one import.

    Weights are shared by reference, never changed. The import owns ``model``, ``restored`` and ``quantized``, which
    in-place passes change; functional passes return a new state.

    ``lowers`` is false where all operators of the model travel as they are, since its opset could not be converted.
    ``restored`` counts the operators of Caffe2 that were restored, by type; ``quantized`` says which inputs
    and parameters are then Int8 tensors.
    """

    model: ir.Model
    foreign: Foreign = "error"
    device: Placement = None
    lowers: bool = True
    net: NetDef | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    restored: Counter[str] = field(default_factory=Counter)
    quantized: dict[str, Quantization] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    def fingerprint(self) -> Hashable:
        """A value that differs after a change of the model, the net or the diagnostics; weights are not read."""
        net = None if self.net is None else self.net.SerializeToString(deterministic=True)
        return model_fingerprint(self.model), net, tuple(self.parameters), tuple(self.quantized), self.findings
