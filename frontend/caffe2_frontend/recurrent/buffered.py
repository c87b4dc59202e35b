"""The general form of RecurrentNetwork: a Loop that carries whole blobs, with links as views of their rows.

This is the form for what passes more than one row from step to step: windows, several initial rows, links to blobs that
are no states. A read sees the rows as they are when it happens, a write that is read in the same step among them.
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
    """The scope of the step net: linked blobs are rows of ``buffers``, the blobs around it that they are views of."""

    links: dict[str, Link] = field(default_factory=dict)
    buffers: dict[str, Value] = field(default_factory=dict)
    seen: dict[tuple[str, Value], Value] = field(default_factory=dict)
    op: Op | None = None
    time: Value | None = None

    def find(self, blob: str) -> Value | None:
        """The current rows of the buffer, for a linked blob."""
        link = self.links.get(blob)
        if link is None or self.op is None or self.time is None:
            return super().find(blob)
        buffer = self.buffers[link.external]
        if (blob, buffer) not in self.seen:
            self.seen[blob, buffer] = self._rows(self.op, self.time, link, buffer)
        return self.seen[blob, buffer]

    def is_known(self, blob: str) -> bool:
        """Whether the blob is known; linked blobs always are."""
        return blob in self.links or super().is_known(blob)

    def bind(self, blob: str, value: Value | None) -> None:
        """Write rows of the buffer, for a linked blob."""
        super().bind(blob, value)
        link = self.links.get(blob)
        if link is None or value is None or self.op is None or self.time is None:
            return
        buffer = self.buffers[link.external]
        first = _moved(self.op, self.time, link.offset)
        indices = [_moved(self.op, first, row) for row in range(link.window)]
        places = unsqueeze(self.op, vector(self.op, indices), [1])
        rows = reshape(self.op, value, [link.window, *sizes(self.op, buffer, 1)])
        self.buffers[link.external] = self.op.emit("ScatterND", buffer, places, rows, shape=buffer.shape)

    @staticmethod
    def _rows(op: Op, time: Value, link: Link, buffer: Value) -> Value:
        first = _moved(op, time, link.offset)
        last = _moved(op, first, link.window)
        dims = None if buffer.shape is None else [link.window, *list(buffer.shape)[1:]]
        return op.emit("Slice", buffer, first, last, op.const([0], np.int64), shape=dims)


def emit_buffered(op: Op, spec: RecurrentSpec) -> dict[str, Value]:
    """Emit the Loop; the whole of each state, and of each other blob that is written through a link, after it."""
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


def _moved(op: Op, place: Value, rows: int) -> Value:
    return op.emit("Add", place, op.const([rows], np.int64)) if rows else place


def _state(op: Op, value: Value, steps: int | Value, batch: int | Value) -> Value:
    """A state of L + T rows: its initial rows, then zeros that the steps write over."""
    rank = op.rank(value)
    if not 1 <= rank <= 3:
        op.unsupported(f"an initial state has rank 1 to 3, not {rank}", code="invalid-operands")
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
