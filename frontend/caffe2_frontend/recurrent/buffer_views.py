"""The scope of a step whose linked blobs are views of rows of whole outer blobs.

A read returns the current rows, including those that were written in the same step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from caffe2_bridge.control import Link
from caffe2_frontend.emit.arithmetic import reshape_like
from caffe2_frontend.emit.shapes import reshape, sizes, unsqueeze, vector
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.scope import Scope


@dataclass
class BufferViews(Scope):
    """The scope of a step net, in which linked blobs are views of rows of the outer blobs, ``buffers``.

    A blob that an operator has written, ``written``, keeps the shape that it got: it need not be that of the rows.
    """

    links: dict[str, Link] = field(default_factory=dict)
    buffers: dict[str, Value] = field(default_factory=dict)
    seen: dict[tuple[str, Value], Value] = field(default_factory=dict)
    written: dict[str, Value] = field(default_factory=dict)
    op: Op | None = None
    time: Value | None = None

    def find(self, blob: str) -> Value | None:
        """Return the value of a blob; for a linked blob the current rows of its buffer."""
        link = self.links.get(blob)
        if link is None:
            return super().find(blob)
        buffer = self.buffers[link.external]
        if (blob, buffer) not in self.seen:
            rows, last = self.rows(link), self.written.get(blob)
            self.seen[blob, buffer] = rows if last is None else reshape_like(self._step(), rows, last)
        return self.seen[blob, buffer]

    def is_known(self, blob: str) -> bool:
        """Return whether a blob is defined; linked blobs always are."""
        return blob in self.links or super().is_known(blob)

    def bind(self, blob: str, value: Value | None) -> None:
        """Set the value of a blob; for a linked blob also write the rows of its buffer."""
        super().bind(blob, value)
        link = self.links.get(blob)
        if link is not None and value is not None:
            self.write(link, value)
            self.written[blob] = self.seen[blob, self.buffers[link.external]] = value

    def rows(self, link: Link) -> Value:
        """Emit the current rows of a buffer that a link sees."""
        op, buffer = self._step(), self.buffers[link.external]
        first = _offset(op, self._index(), link.offset)
        last = _offset(op, first, link.window)
        dims = None if buffer.shape is None else [link.window, *list(buffer.shape)[1:]]
        return op.emit("Slice", buffer, first, last, op.const([0], np.int64), shape=dims)

    def write(self, link: Link, value: Value) -> None:
        """Emit the buffer with other rows where a link sees it."""
        op, buffer = self._step(), self.buffers[link.external]
        first = _offset(op, self._index(), link.offset)
        indices = [_offset(op, first, row) for row in range(op.unrolled(link.window))]
        positions = unsqueeze(op, vector(op, indices), [1])
        rows = reshape(op, value, [link.window, *sizes(op, buffer, 1)])
        self.buffers[link.external] = op.emit("ScatterND", buffer, positions, rows, shape=buffer.shape)

    def _step(self) -> Op:
        assert self.op is not None
        return self.op

    def _index(self) -> Value:
        assert self.time is not None
        return self.time


def views_inside(inside: Op) -> tuple[BufferViews, Op]:
    """Return the scope of a step in the body ``inside``, and the operator that emits there."""
    outer = inside.scope
    views = BufferViews(outer.names, outer.constants, outer.opset, outer.parent, sizes=outer.sizes)
    views.nodes = outer.nodes  # the body's own
    views.op = inside.inside(views)
    return views, views.op


def _offset(op: Op, index: Value, rows: int) -> Value:
    return op.emit("Add", index, op.const([rows], np.int64)) if rows else index
