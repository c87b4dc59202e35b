"""Traces of a lowering: the values of blobs, and the values on whose contents conversions depend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.metadata.origin import LOCATION_KEY
from caffe2_frontend.lowering.dim_facts import DimFacts


@dataclass(slots=True)
class Trace:
    """The trace of one operator of the net.

    Attributes:
        op: the operator.
        location: its location, as text.
        before: the values of blobs before the operator, if it may change them.
        consulted: the values on whose contents the conversion depends, with the contents unless they are constants.
        measured: the values whose nodes the conversion inspected, or computed as well.
    """

    op: OperatorDef
    location: str
    before: dict[str, ir.Value | None] | None = None
    consulted: dict[ir.Value, Array | None] | None = None
    measured: set[ir.Value] | None = None


@dataclass(slots=True)
class Label:
    """What the nodes of an operator are named after.

    Attributes:
        name: the operator's name, or its first output and type where it has none.
        value: its first output that is a tensor.
    """

    name: str
    value: ir.Value | None


@dataclass
class Traces:
    """The traces of a net.

    Attributes:
        ops: the traces of its operators, in order.
        blobs: the last value of each blob.
        given: the outputs of the graph whose value is not that of their blob.
        dims: what converters know of symbolic dims.
        labels: for the location of each operator, those of bodies and of the init net too, what names its nodes.
    """

    ops: list[Trace] = field(default_factory=list)
    blobs: dict[str, ir.Value | None] = field(default_factory=dict)
    given: dict[str, ir.Value | None] = field(default_factory=dict)
    dims: DimFacts = field(default_factory=DimFacts)
    labels: dict[str, Label] = field(default_factory=dict)

    @cached_property
    def writers(self) -> dict[str, Trace]:
        """The last operator that lists each blob as an output."""
        return {blob: trace for trace in self.ops for blob in trace.op.output}

    def merge(self, replaced: Mapping[ir.Value, ir.Value]) -> None:
        """Follow values that were replaced by equal ones.

        Where the value that an operator computed has become a blob, the operator depends on the nodes of the blob: it
        may read the blob as well, and what these nodes compute is then more than an operand.
        """
        traces = {trace.location: trace for trace in self.ops} if replaced else {}
        blobs = {*self.blobs.values()} if replaced else set()
        for old, new in replaced.items():
            trace = traces.get(_location(old))
            if trace is None or trace.location == _location(new):
                continue
            if new in (blobs if trace.before is None else trace.before.values()):
                trace.measured = {*(trace.measured or ()), new}
        self.replace(replaced)

    def replace(self, replaced: Mapping[ir.Value, ir.Value]) -> None:
        """Follow values that were replaced in the graph; what replaced a value may have been replaced later."""
        if not replaced:
            return
        changed = {value: _last(value, replaced) for value in replaced}
        bound = [self.blobs, self.given, *(trace.before for trace in self.ops if trace.before)]
        for blobs in bound:
            blobs.update({blob: changed[value] for blob, value in blobs.items() if value in changed})
        for trace in self.ops:
            if trace.measured:
                trace.measured = {changed.get(value) or value for value in trace.measured}
            if trace.consulted:
                trace.consulted = {changed.get(value) or value: held for value, held in trace.consulted.items()}


def _location(value: ir.Value) -> str:
    """Return the location of the operator of the main net whose nodes compute a value."""
    node = value.producer()
    return "" if node is None else node.metadata_props.get(LOCATION_KEY, "").partition(" > ")[0]


def _last(value: ir.Value, replaced: Mapping[ir.Value, ir.Value]) -> ir.Value:
    while value in replaced:
        value = replaced[value]
    return value
