"""Represent sequences of tensors as the values that they hold, or as one tensor with an axis for the items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_bridge.bounds import MAX_UNROLLED
from caffe2_frontend.interop.names import Names


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


class Emitter:
    """Emits nodes before ``anchor`` or at the end of a graph; constants become the main graph's initializers."""

    def __init__(self, main: ir.Graph, names: Names, place: ir.Node | ir.Graph) -> None:
        self._main = main
        self._names = names
        self._place = place

    def at(self, place: ir.Node | ir.Graph) -> Emitter:
        """An emitter for another position."""
        return Emitter(self._main, self._names, place)

    def fresh(self, what: str) -> str:
        """A unique name for a value."""
        return self._names.fresh(f"sequence/{what}")

    def emit(self, op_type: str, *inputs: ir.Value, rank: int | None = None, **attrs: Any) -> ir.Value:
        """The output of a new node; ``rank`` is its rank, if known."""
        return self.emit_several(op_type, *inputs, outputs=1, rank=rank, **attrs)[0]

    def emit_several(
        self, op_type: str, *inputs: ir.Value, outputs: int, rank: int | None = None, **attrs: Any
    ) -> tuple[ir.Value, ...]:
        """The outputs of a new node."""
        node = ir.Node(
            "", op_type, inputs, [ir.convenience.convert_attribute(k, v) for k, v in attrs.items()], num_outputs=outputs
        )
        if op_type == "Identity" and inputs[0].shape is not None:
            rank = len(inputs[0].shape)
        for value in node.outputs:
            value.name = self.fresh(op_type)
            value.type = ir.TensorType(ir.DataType.INT64) if op_type == "Shape" else inputs[0].type
            if rank is not None and value.type is not None:
                value.shape = ir.Shape([None] * rank)
        if isinstance(self._place, ir.Graph):
            self._place.append(node)
        else:
            self._place.prepend(node)
        return tuple(node.outputs)

    def const(self, array: Any) -> ir.Value:
        """An int64 constant."""
        array = np.asarray(array, np.int64)
        tensor = ir.Tensor(array)
        name = self.fresh("const")
        value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
        self._main.register_initializer(value)
        return value

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
            return Rows(self.emit("Unsqueeze", x, self.const([axis + 1]), rank=wide), axis)
        known = None if sizes.const_value is None else sizes.const_value.numpy()
        if known is None:
            return None
        if known.ndim == 0:
            dim = None if x.shape is None else x.shape[axis]
            size = int(known)
            if not isinstance(dim, int) or size < 1 or dim // size > MAX_UNROLLED:
                return None
            known = np.array([min(size, dim - start) for start in range(0, dim, size)])
        return Items(self.emit_several("Split", x, self.const(known), outputs=len(known), rank=rank, axis=axis))

    def at_place(self, of: Contents, place: ir.Value) -> ir.Value | None:
        """SequenceAt."""
        known = _constant(place)
        if isinstance(of, Items) and known is not None:
            return of.values[known] if -len(of.values) <= known < len(of.values) else None
        rows = self.rows(of)
        if rows is None:
            return None
        return self.emit("Gather", rows.tensor, place, rank=_less(rows.rank), axis=rows.axis)

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
        return Rows(self.emit("Slice", of.tensor, *ends, rank=of.rank), of.axis)

    def concatenated(self, of: Contents, axis: int, *, new: bool) -> ir.Value | None:
        """ConcatFromSequence."""
        if isinstance(of, Items):
            values: Sequence[ir.Value] = of.values
            ranks = [len(value.shape) for value in values if value.shape is not None]
            rank = ranks[0] + int(new) if ranks else None
            if new:
                values = [self.emit("Unsqueeze", value, self.const([axis]), rank=rank) for value in values]
            return self.emit("Concat", *values, rank=rank, axis=axis) if values else None
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
            shape = self.emit("Concat", shape, self.emit("Shape", moved, rank=1, start=axis + 2), rank=1, axis=0)
        return self.emit("Reshape", moved, shape, rank=rank - 1)

    def rows(self, of: Contents) -> Rows | None:
        """The sequence as one tensor; None for an empty sequence."""
        if isinstance(of, Rows):
            return of
        if not of.values:
            return None
        stacked = self.concatenated(of, 0, new=True)
        return None if stacked is None else Rows(stacked, 0)

    def first_rows(self, of: Contents) -> ir.Value | None:
        """The sequence as one tensor with the items along the first axis; None for an empty sequence."""
        rows = self.rows(of)
        return None if rows is None else self._moved(rows, 0)

    def joined(self, parts: Iterable[Contents]) -> Contents | None:
        """The concatenation of sequences."""
        tensors = [self.first_rows(part) for part in parts if part != Items(())]
        known = [tensor for tensor in tensors if tensor is not None]
        if len(known) < len(tensors):
            return None
        if not known:
            return Items(())
        ranks = [len(tensor.shape) for tensor in known if tensor.shape is not None]
        rank = ranks[0] if ranks else None
        return Rows(known[0] if len(known) == 1 else self.emit("Concat", *known, rank=rank, axis=0), 0)

    def _moved(self, rows: Rows, axis: int) -> ir.Value | None:
        if axis == rows.axis:
            return rows.tensor
        if rows.rank is None:
            return None
        order = [i for i in range(rows.rank) if i != rows.axis]
        order.insert(axis, rows.axis)
        return self.emit("Transpose", rows.tensor, rank=rows.rank, perm=order)


def become(value: ir.Value, tensor: ir.Value) -> None:
    """Give a value that was a sequence the type and rank of a tensor."""
    value.type = tensor.type
    value.shape = None if tensor.shape is None else ir.Shape([None] * len(tensor.shape))


def _less(rank: int | None) -> int | None:
    return None if rank is None else rank - 1


def _constant(value: ir.Value) -> int | None:
    """The value of a constant scalar integer, None for another value."""
    tensor = value.const_value
    return int(tensor.numpy()) if tensor is not None and tensor.size == 1 and not tuple(tensor.shape) else None
