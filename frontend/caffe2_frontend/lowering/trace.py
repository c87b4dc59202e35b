"""What a lowering notes of the operators of the net: which values are their blobs', and what converters looked into."""

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

# Values are followed as operands of nodes outside of the graph, which are short: one is made anew with each change.
_CHUNK: Final = 64


@dataclass(slots=True)
class Trace:
    """One operator of the net.

    ``before`` holds the values that blobs had before it, where it is one that changes blobs. ``consulted`` are values
    whose contents the conversion depends on, with the contents where they are no constant's; ``measured`` those at
    whose nodes it looked.
    """

    op: OperatorDef
    location: Location
    before: dict[str, ir.Value | None] | None = None
    consulted: dict[ir.Value, Array | None] | None = None
    measured: set[ir.Value] | None = None


@dataclass
class Traces:
    """The operators, in order, and the value of every blob, the last one where there are several.

    ``given`` are outputs of the graph that have a value of their own beside their blob's.
    """

    ops: list[Trace] = field(default_factory=list)
    blobs: dict[str, ir.Value | None] = field(default_factory=dict)
    given: dict[str, ir.Value | None] = field(default_factory=dict)

    @cached_property
    def writers(self) -> dict[str, Trace]:
        """The last operator that declares to write each blob."""
        return {blob: trace for trace in self.ops for blob in trace.op.output}

    @contextmanager
    def followed(self) -> Iterator[None]:
        """While values take the place of others in the graph, they do here."""
        bound = [self.blobs, self.given, *(trace.before for trace in self.ops if trace.before)]
        values = [*dict.fromkeys(value for blobs in bound for value in blobs.values() if value is not None)]
        nodes = [ir.Node("", "Trace", values[i : i + _CHUNK], num_outputs=0) for i in range(0, len(values), _CHUNK)]
        try:
            yield
        finally:
            now = [value for node in nodes for value in node.inputs]
            for node in nodes:
                node.resize_inputs(0)
            changed = {old: new for old, new in zip(values, now, strict=True) if old is not new}
            for blobs in bound if changed else ():
                blobs.update({blob: changed[value] for blob, value in blobs.items() if value in changed})
            for trace in self.ops if changed else ():
                if trace.measured:
                    trace.measured = {changed.get(value) or value for value in trace.measured}
                if trace.consulted:
                    trace.consulted = {changed.get(value) or value: held for value, held in trace.consulted.items()}
