"""Represent sequences of tensors as the values that they hold, or as one tensor with an axis for the items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.bounds import MAX_UNROLLED
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.rewriting.node_emitter import NodeEmitter, add_constant


@dataclass(frozen=True)
class Items:
    """A sequence of a known number of values."""

    values: tuple[ir.Value, ...]


@dataclass(frozen=True)
class Rows:
    """A sequence along ``axis`` of a tensor; an item is the tensor at one index of it, without that axis."""

    tensor: ir.Value
    axis: int

    @property
    def rank(self) -> int | None:
        """The rank of the tensor, None if it is unknown."""
        return None if self.tensor.shape is None else len(self.tensor.shape)


Contents = Items | Rows


class Emitter(NodeEmitter):
    """Emits nodes before a node or at the end of a graph; constants become the main graph's initializers."""

    def __init__(self, main: ir.Graph, names: Names, place: ir.Node | ir.Graph) -> None:
        super().__init__()
        self._main = main
        self._names = names
        self._place = place

    def at(self, place: ir.Node | ir.Graph) -> Emitter:
        """Return an emitter for another position."""
        return Emitter(self._main, self._names, place)

    def fresh(self, what: str) -> str:
        """Return a unique name for a value."""
        return self._names.fresh(f"sequence/{what}")

    def const(self, array: Any, dtype: Any = np.int64) -> ir.Value:
        """Return a constant, of int64 unless it is said."""
        return add_constant(self._main, self.fresh("const"), array, dtype)

    def _add(self, node: ir.Node) -> None:
        if isinstance(self._place, ir.Graph):
            self._place.append(node)
        else:
            self._place.prepend(node)

    def _name(self, node: ir.Node) -> None:
        for value in node.outputs:
            value.name = self.fresh(node.op_type)

    def _infer(self, node: ir.Node) -> None:
        """Give outputs the type of the first operand, and that of an Identity its rank, too."""
        first = node.inputs[0]
        assert first is not None
        for value in node.outputs:
            value.type = ir.TensorType(ir.DataType.INT64) if node.op_type == "Shape" else first.type
            if node.op_type == "Identity" and first.shape is not None:
                _of_rank(value, len(first.shape))

    # Operations on sequences; they return None where tensors cannot express the result.

    def split(self, x: ir.Value, sizes: ir.Value | None, axis: int, *, keep: bool) -> Contents | None:
        """SplitToSequence. With ``keep`` the items have the axis too."""
        rank = None if x.shape is None else len(x.shape)
        if rank is not None and -rank <= axis < rank:
            axis %= rank
        elif rank is not None or axis < 0:
            return None
        if sizes is None or _constant(sizes) == 1:
            if not keep:
                return Rows(x, axis)
            wide = None if rank is None else rank + 1
            return Rows(_of_rank(self.emit("Unsqueeze", x, self.const([axis + 1])), wide), axis)
        known = None if sizes.const_value is None else sizes.const_value.numpy()
        if known is None:
            return None
        if known.ndim == 0:
            dim = None if x.shape is None else x.shape[axis]
            size = int(known)
            if not isinstance(dim, int) or size < 1 or dim // size > MAX_UNROLLED:
                return None
            known = np.array([min(size, dim - start) for start in range(0, dim, size)])
        parts = self.several(len(known), "Split", x, self.const(known), axis=axis)
        return Items(tuple(_of_rank(part, rank) for part in parts))

    def at_place(self, of: Contents, place: ir.Value) -> ir.Value | None:
        """SequenceAt."""
        known = _constant(place)
        if isinstance(of, Items) and known is not None:
            return of.values[known] if -len(of.values) <= known < len(of.values) else None
        rows = self.rows(of)
        if rows is None:
            return None
        return _of_rank(self.emit("Gather", rows.tensor, place, axis=rows.axis), _less(rows.rank))

    def length(self, of: Contents) -> ir.Value:
        """SequenceLength."""
        if isinstance(of, Items):
            return self.const(len(of.values))
        return self.emit("Gather", self.emit("Shape", of.tensor), self.const(of.axis), axis=0)

    def inserted(self, of: Contents, item: ir.Value, place: ir.Value | None) -> Contents | None:
        """SequenceInsert."""
        if isinstance(of, Items):
            known = len(of.values) if place is None else _constant(place)
            if known is not None and -len(of.values) <= known <= len(of.values):
                values = list(of.values)
                values.insert(known, item)
                return Items(tuple(values))
        return self.joined([of, Items((item,))]) if place is None else None

    def erased(self, of: Contents, place: ir.Value | None) -> Contents | None:
        """SequenceErase."""
        if isinstance(of, Items):
            known = -1 if place is None else _constant(place)
            if known is None or not -len(of.values) <= known < len(of.values):
                return None
            values = list(of.values)
            del values[known]
            return Items(tuple(values))
        if place is not None:
            return None
        ends = self.const([0]), self.const([-1]), self.const([of.axis])
        return Rows(_of_rank(self.emit("Slice", of.tensor, *ends), of.rank), of.axis)

    def concatenated(self, of: Contents, axis: int, *, new: bool) -> ir.Value | None:
        """ConcatFromSequence."""
        if isinstance(of, Items):
            values: Sequence[ir.Value] = of.values
            ranks = [len(value.shape) for value in values if value.shape is not None]
            rank = ranks[0] + int(new) if ranks else None
            if new:
                values = [_of_rank(self.emit("Unsqueeze", value, self.const([axis])), rank) for value in values]
            return _of_rank(self.emit("Concat", *values, axis=axis), rank) if values else None
        rank = of.rank
        if axis < 0:
            if rank is None:
                return None
            axis += rank if new else rank - 1
        moved = self._moved(of, axis)
        if new or moved is None:
            return moved
        if rank is None:
            return None
        shape = self.const([*[0] * axis, -1])
        if axis + 2 < rank:
            rest = _of_rank(self.emit("Shape", moved, start=axis + 2), 1)
            shape = _of_rank(self.emit("Concat", shape, rest, axis=0), 1)
        return _of_rank(self.emit("Reshape", moved, shape), rank - 1)

    def rows(self, of: Contents) -> Rows | None:
        """Return the sequence as one tensor; None for an empty sequence."""
        if isinstance(of, Rows):
            return of
        if not of.values:
            return None
        stacked = self.concatenated(of, 0, new=True)
        return None if stacked is None else Rows(stacked, 0)

    def first_rows(self, of: Contents) -> ir.Value | None:
        """Return the sequence as one tensor with the items along the first axis; None for an empty sequence."""
        rows = self.rows(of)
        return None if rows is None else self._moved(rows, 0)

    def joined(self, parts: Iterable[Contents]) -> Contents | None:
        """Return the concatenation of sequences."""
        tensors = [self.first_rows(part) for part in parts if part != Items(())]
        known = [tensor for tensor in tensors if tensor is not None]
        if len(known) < len(tensors):
            return None
        if not known:
            return Items(())
        ranks = [len(tensor.shape) for tensor in known if tensor.shape is not None]
        rank = ranks[0] if ranks else None
        return Rows(known[0] if len(known) == 1 else _of_rank(self.emit("Concat", *known, axis=0), rank), 0)

    def _moved(self, rows: Rows, axis: int) -> ir.Value | None:
        if axis == rows.axis:
            return rows.tensor
        if rows.rank is None:
            return None
        order = [i for i in range(rows.rank) if i != rows.axis]
        order.insert(axis, rows.axis)
        return _of_rank(self.emit("Transpose", rows.tensor, perm=order), rows.rank)


def become(value: ir.Value, tensor: ir.Value) -> None:
    """Give a value that was a sequence the type and rank of a tensor."""
    value.type = tensor.type
    value.shape = None if tensor.shape is None else ir.Shape([None] * len(tensor.shape))


def _of_rank(value: ir.Value, rank: int | None) -> ir.Value:
    """Return the value itself, which has a rank if that is known."""
    if rank is not None and value.type is not None:
        value.shape = ir.Shape([None] * rank)
    return value


def _less(rank: int | None) -> int | None:
    return None if rank is None else rank - 1


def _constant(value: ir.Value) -> int | None:
    """Return the value of a constant scalar integer, None for another value."""
    tensor = value.const_value
    return int(tensor.numpy()) if tensor is not None and tensor.size == 1 and not tuple(tensor.shape) else None
