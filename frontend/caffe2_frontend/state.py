"""The state of an export, which its passes transform."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import onnx
import onnx_ir as ir
from onnx.helper import find_min_ir_version_for  # noqa: TID251 - a table of versions, no graph building

from caffe2_bridge.diagnostics import Diagnostic
from caffe2_bridge.diagnostics.short_repr import short_repr
from caffe2_bridge.init.init_net import InitNet
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.metadata.model_fingerprint import model_fingerprint
from caffe2_frontend.interop.types import Quantization, TensorInfo
from caffe2_frontend.lowering.trace import Traces
from caffe2_frontend.options import DEFAULTS, ExportOptions

# Opset 20 is the oldest that has everything the converters emit (string operators came with 19 and 20), and every
# onnxruntime since 1.17 runs it.
WORKING_OPSET: Final = 20
IR_VERSION: Final = 9


def ir_version(opset: int) -> int:
    """Return the version of ONNX's file format that goes with an opset."""
    if opset <= WORKING_OPSET:
        return IR_VERSION
    return int(find_min_ir_version_for([onnx.OperatorSetIdProto(domain="", version=opset)]))


@dataclass(frozen=True)
class Export:
    """The state of one export.

    Nets and weights are shared by reference, never changed. The export owns ``model`` and ``traces``, which in-place
    passes change; functional passes return a new state.

    Attributes:
        net: the net, with its inputs and outputs declared.
        indices: the index of each operator in the caller's net; empty where it is that in ``net``.
        init: the parameters, and the operators of the init net that are not fills.
        options: the options of the caller.
        inputs: what is known of the net's inputs; complete once they are described.
        inferred_types: the inputs whose element type was inferred from the operators that read them.
        assumed_ranks: for inputs whose rank is assumed, the type of the operator that most often has it.
        accepted: the element types that operators accept of operands, by operator type and index, where they check it.
        wanted_scales: the Int8 operands of unknown quantization, each with one that its reader accepts.
        fills: the fills of inputs in the init net.
        outputs: pairs of a graph output's name and its blob, in the net's order.
        implied_outputs: whether the outputs are neither declared nor asked for: they are the blobs that nothing reads.
        states: for the initial value of each carried state, an input, the index of the graph output that feeds it in
            the next call; empty unless the export is stateful.
        updates: the same for each blob that a training net updates; empty unless the export is one of training.
        initial: the defaults of inputs: values of updated blobs before the first step, where they are known, and
            parameters that an import described as inputs.
        losses: the indices of the graph outputs that gradients start from, of a training export.
        opset: the opset of the result.
        working_opset: the opset in which the graph is built.
        foreign: whether the net carries ONNX operators.
        domains: the versions of other ONNX domains, where it does.
        model: the ONNX model, once the net is lowered without errors.
        findings: the diagnostics so far, in net order.
        covered: how many operators were converted, by type.
        unexamined: how many were not, because they read what an operator without a conversion writes.
        traces: the values that belong to each operator.
        functions: the functions that nodes of the model call, by domain and name; they join it last.
    """

    net: NetView
    init: InitNet
    options: ExportOptions = DEFAULTS
    indices: tuple[int, ...] = ()
    inputs: Mapping[str, TensorInfo] = field(default_factory=dict)
    inferred_types: frozenset[str] = frozenset()
    assumed_ranks: Mapping[str, str] = field(default_factory=dict)
    accepted: Mapping[tuple[str, int], Collection[ir.DataType]] = field(default_factory=dict)
    wanted_scales: Mapping[str, Quantization] = field(default_factory=dict)
    fills: Mapping[str, Parameter] = field(default_factory=dict)
    outputs: tuple[tuple[str, str], ...] = ()
    implied_outputs: bool = False
    states: Mapping[str, int] = field(default_factory=dict)
    updates: Mapping[str, int] = field(default_factory=dict)
    initial: Mapping[str, Parameter] = field(default_factory=dict)
    losses: tuple[int, ...] = ()
    opset: int = WORKING_OPSET
    working_opset: int = WORKING_OPSET
    foreign: bool = False
    domains: Mapping[str, int] = field(default_factory=dict)
    model: ir.Model | None = None
    findings: tuple[Diagnostic, ...] = ()
    covered: Mapping[str, int] = field(default_factory=dict)
    unexamined: int = 0
    traces: Traces = field(default_factory=Traces)
    functions: Mapping[tuple[str, str], onnx.FunctionProto] = field(default_factory=dict)

    def __repr__(self) -> str:
        return short_repr(self, self.net.name, operators=len(self.net.ops), findings=len(self.findings))

    @property
    def predict(self) -> NetDef:
        """The protobuf of the net."""
        return self.net.proto

    @property
    def graph(self) -> ir.Graph:
        """The ONNX graph. Raises RuntimeError before the net is lowered."""
        if self.model is None:
            raise RuntimeError("the net has not been lowered yet")
        return self.model.graph

    def numbered(self) -> Iterator[tuple[int, OpView]]:
        """Return the operators of the net, each with its index in the caller's net."""
        ops = self.net.ops
        return zip(self.indices or range(len(ops)), ops, strict=True)

    def fingerprint(self) -> Hashable:
        """Return a value that differs after a change of nets, model or diagnostics; weights are not read."""
        model = None if self.model is None else model_fingerprint(self.model)
        return self.predict.SerializeToString(deterministic=True), tuple(self.inputs.items()), self.findings, model
