"""Traces of a lowering: the values of blobs, and the values on whose contents conversions depend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import onnx_ir as ir

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.lowering.dim_facts import DimFacts

# Values are tracked as inputs of nodes outside the graph, of this size each: replacing an input copies the tuple.
_CHUNK: Final = 64


@dataclass(slots=True)
class Trace:
    """The trace of one operator of the net.

    Attributes:
        op: the operator.
        location: its location.
        before: the values of blobs before the operator, if it may change them.
        consulted: the values on whose contents the conversion depends, with the contents unless they are constants.
        measured: the values whose nodes the conversion inspected.
    """

    op: OperatorDef
    location: Location
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

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Track replacements: values that are replaced in the graph within the block are replaced in the traces too.

        The values become inputs of temporary nodes, so that ``replace_all_uses_with`` updates them.
        """
        bound = [self.blobs, self.given, *(trace.before for trace in self.ops if trace.before)]
        values = [*dict.fromkeys(value for blobs in bound for value in blobs.values() if value is not None)]
        nodes = [ir.Node("", "Trace", values[i : i + _CHUNK], num_outputs=0) for i in range(0, len(values), _CHUNK)]
        try:
            yield
        finally:
            current = [value for node in nodes for value in node.inputs]
            for node in nodes:
                node.resize_inputs(0)
            changed = {old: new for old, new in zip(values, current, strict=True) if old is not new}
            for blobs in bound if changed else ():
                blobs.update({blob: changed[value] for blob, value in blobs.items() if value in changed})
            for trace in self.ops if changed else ():
                if trace.measured:
                    trace.measured = {changed.get(value) or value for value in trace.measured}
                if trace.consulted:
                    trace.consulted = {changed.get(value) or value: held for value, held in trace.consulted.items()}
