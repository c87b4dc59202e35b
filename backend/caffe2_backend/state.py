"""The state of the import pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx_ir as ir

from caffe2_backend.options import DEFAULTS, ImportOptions
from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.metadata.model_fingerprint import model_fingerprint
from caffe2_frontend.interop.types import Quantization

# The opset that the converters read. Models of an earlier one are converted to it, later ones are read unchanged.
WORKING_OPSET: Final = 20


@dataclass(frozen=True)
class Import:
    """The state of one import.

    Weights are shared by reference, never changed. The import owns ``model``, ``restored`` and ``quantized``, which
    in-place passes change; functional passes return a new state.

    Attributes:
        model: the ONNX model.
        options: the options of the import.
        defaults: the initializers that are inputs, too, where something reads them.
        demands_inputs: whether the format of the model demands that every initializer is an input.
        lowers: false where all operators are carried unchanged, since the model's opset could not be converted.
        net: the Caffe2 net, once the graph is lowered.
        parameters: its parameters by name.
        restored: the number of restored operators of Caffe2, by type.
        quantized: the inputs and parameters that are Int8 tensors of restored operators.
        findings: the diagnostics so far.
    """

    model: ir.Model
    options: ImportOptions = DEFAULTS
    defaults: tuple[str, ...] = ()
    demands_inputs: bool = False
    lowers: bool = True
    net: NetDef | None = None
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    restored: Counter[str] = field(default_factory=Counter)
    quantized: dict[str, Quantization] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()

    def fingerprint(self) -> Hashable:
        """Return a value that differs after a change of the model, the net or the diagnostics; weights are not read."""
        net = None if self.net is None else self.net.SerializeToString(deterministic=True)
        return model_fingerprint(self.model), net, tuple(self.parameters), tuple(self.quantized), self.findings
