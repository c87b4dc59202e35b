"""The interface of a lowering that an operator under conversion uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx
import onnx_ir as ir

from caffe2_bridge.diagnostics import Location, Severity
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend.interop.types import Quantization
from caffe2_frontend.lowering.dim_facts import DimFacts
from caffe2_frontend.lowering.reads import BlobReads
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.targets.target import Recurrent, Target


@dataclass(frozen=True)
class KeptRows:
    """A blob that a loop keeps: its values in all iterations, [trips, ...], or one that it has in every iteration."""

    value: ir.Value
    constant: bool


class LoweringContext(Protocol):
    """What an :class:`~caffe2_frontend.lowering.op.Op` needs of the lowering that it is part of.

    Attributes:
        consulted: values on whose contents the nodes of the current operator depend, with the contents where the value
            is not a constant.
        unfused: by recurrent net, the outputs of the model that keep it from becoming a fused operator.
        omitted: by recurrent net, the implied outputs that a fused operator does not compute, and the model omits.
        accepted: the element types that operators accept of operands whose type they check, by operator type and index.
        wanted_scales: the Int8 operands of unknown quantization, each with one that its reader accepts.
        measured: values whose producing node the conversion of the current operator inspected.
        dims: what converters know of symbolic dims.
        kept_kinds: by stack of workspaces and blob, the element type and the shape of the values that are kept.
        kept_rows: by stack of workspaces that a loop stacks, the values of each blob in all iterations, or the value
            that it has in every iteration.
        functions: the functions that nodes call, by domain and name.
    """

    consulted: dict[ir.Value, Array | None]
    measured: set[ir.Value]
    accepted: dict[tuple[str, int], set[ir.DataType]]
    wanted_scales: dict[str, Quantization]
    unfused: dict[Location, list[str]]
    omitted: dict[Location, list[str]]
    dims: DimFacts
    kept_kinds: dict[tuple[str, str], tuple[ir.DataType, ir.Shape | None]]
    kept_rows: dict[str, dict[str, KeptRows]]
    functions: dict[tuple[str, str], onnx.FunctionProto]

    @property
    def recurrent(self) -> Recurrent:
        """The form of recurrent nets that the caller asks for."""
        ...

    @property
    def target(self) -> Target:
        """The runtime that the model is for."""
        ...

    @property
    def full_lengths(self) -> bool:
        """Whether the caller promises that all rows of sequences have as many steps as the sequence."""
        ...

    @property
    def reads(self) -> BlobReads:
        """Who reads the blobs of the net."""
        ...

    @property
    def outputs(self) -> tuple[str, ...]:
        """The blobs that are outputs of the model."""
        ...

    @property
    def implied_outputs(self) -> bool:
        """Whether the outputs are neither declared nor asked for: they are the blobs that nothing reads."""
        ...

    @property
    def errors(self) -> int:
        """How many diagnostics of this lowering are errors."""
        ...

    def net(self, net: NetDef, scope: Scope, location: Location) -> None:
        """Lower the operators of ``net`` into ``scope``; ``location`` is the net's location."""

    def report(
        self, code: str, reason: str, here: Location, hint: str = "", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a diagnostic."""
