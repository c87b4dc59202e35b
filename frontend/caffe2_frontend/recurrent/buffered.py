"""The general form of RecurrentNetwork: a Loop that carries whole blobs, with links as views of their rows.

It is required if steps carry more than one row: windows, several initial rows, links to blobs that are not states. A
read returns the current rows, including those that were written in the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Link, RecurrentSpec
from caffe2_frontend.emit.shapes import Size, reshape, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.scope import Scope


@dataclass
class _Views(Scope):
    """The scope of the step net, in which linked blobs are views of rows of the outer blobs, ``buffers``."""

    links: dict[str, Link] = field(default_factory=dict)
    buffers: dict[str, Value] = field(default_factory=dict)
    seen: dict[tuple[str, Value], Value] = field(default_factory=dict)
    op: Op | None = None
    time: Value | None = None

    def find(self, blob: str) -> Value | None:
        """Return the value of a blob; for a linked blob the current rows of its buffer."""
        link = self.links.get(blob)
        if link is None or self.op is None or self.time is None:
            return super().find(blob)
        buffer = self.buffers[link.external]
        if (blob, buffer) not in self.seen:
            self.seen[blob, buffer] = self._rows(self.op, self.time, link, buffer)
        return self.seen[blob, buffer]

    def is_known(self, blob: str) -> bool:
        """Return whether a blob is defined; linked blobs always are."""
        return blob in self.links or super().is_known(blob)

    def bind(self, blob: str, value: Value | None) -> None:
        """Set the value of a blob; for a linked blob also write the rows of its buffer."""
        super().bind(blob, value)
        link = self.links.get(blob)
        if link is None or value is None or self.op is None or self.time is None:
            return
        buffer = self.buffers[link.external]
        first = _offset(self.op, self.time, link.offset)
        indices = [_offset(self.op, first, row) for row in range(link.window)]
        positions = unsqueeze(self.op, vector(self.op, indices), [1])
        rows = reshape(self.op, value, [link.window, *sizes(self.op, buffer, 1)])
        self.buffers[link.external] = self.op.emit("ScatterND", buffer, positions, rows, shape=buffer.shape)

    @staticmethod
    def _rows(op: Op, time: Value, link: Link, buffer: Value) -> Value:
        first = _offset(op, time, link.offset)
        last = _offset(op, first, link.window)
        dims = None if buffer.shape is None else [link.window, *list(buffer.shape)[1:]]
        return op.emit("Slice", buffer, first, last, op.const([0], np.int64), shape=dims)


def emit_buffered(op: Op, spec: RecurrentSpec) -> dict[str, Value]:
    """Emit the Loop. Returns all rows of each state, and of each other linked blob that is written, after it."""
    first = op.input(0)
    steps, batch = size(op, first, 0), size(op, first, 1)
    initial = {state.blob: _state(op, op.input(state.initial), steps, batch) for state in spec.states}
    initial.update({scratch.blob: _zeros(op, [steps, batch, scratch.size]) for scratch in spec.scratches})
    for link in spec.links:
        if link.external not in initial:
            initial[link.external] = _outer(op, link)
    written = list(dict.fromkeys(link.external for link in spec.writes()))

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        time = reshape(inside, iteration[0], [1])
        outer = inside.scope
        views = _Views(outer.names, outer.constants, outer.opset, outer.parent, sizes=outer.sizes)
        views.nodes = outer.nodes  # the body's own
        within = inside.inside(views)
        views.op, views.time = within, time
        views.links = {link.internal: link for link in spec.links}
        views.buffers = {**initial, **dict(zip(written, states, strict=True))}
        views.blobs[spec.timestep] = within.emit("Cast", time, to=int(ir.DataType.INT32))
        within.lower_body(spec.step_net, views, spec.argument)
        return [views.buffers[name] for name in written], []

    finals, _ = loop(op, steps, None, [initial[name] for name in written], step)
    return {**initial, **dict(zip(written, finals, strict=True))}


def _offset(op: Op, index: Value, rows: int) -> Value:
    return op.emit("Add", index, op.const([rows], np.int64)) if rows else index


def _state(op: Op, value: Value, steps: int | Value, batch: int | Value) -> Value:
    """Emit a state of L + T rows: its initial rows, then zeros, which the steps overwrite."""
    rank = op.rank(value)
    if not 1 <= rank <= 3:
        op.unsupported(f"an initial state must have rank 1 to 3, not {rank}", code="invalid-operands")
    width = size(op, value, -1)
    if rank == 1:
        value = op.emit("Expand", value, vector(op, [1, batch, width]))
    elif rank == 2:
        value = unsqueeze(op, value, [0])
    rest = _zeros(op, [steps, batch, width])
    dims = [None, *(d if isinstance(d, int) else None for d in (batch, width))]
    return op.emit("Concat", value, rest, axis=0, shape=dims)


def _zeros(op: Op, dims: Sequence[Size]) -> Value:
    return op.emit("ConstantOfShape", vector(op, dims), value=ir.tensor(np.zeros(1, np.float32)))


def _outer(op: Op, link: Link) -> Value:
    value = op.scope.find(link.external)
    if value is None:
        op.unsupported(f"link {link.internal!r} is to {link.external!r}, which has no value", code="undefined-blob")
    return value
