"""The values of a Scan as states of a RecurrentNetwork, which are float [T + 1, N, D] with one N for all of them.

N is the batch where every state is [N, D] or [1, N, D] and a sequence is [T, N, ...]; else N is 1, and a row holds all
elements of a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.conversion import as_float, from_float
from caffe2_backend.emit.shapes import Size, dim_of, product, reshape
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import HELD_BY_FLOAT, UNDEFINED
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.bodies import captured_values
from caffe2_frontend.interop.types import FLOAT

# A number, or the axis of a blob that has the dim when the net runs.
Dim = int | tuple[str, int]

_RESHAPING: Final = ("Squeeze", "Unsqueeze")


@dataclass(frozen=True)
class Carried:
    """A value that a state carries from step to step, or keeps of every step.

    ``initial`` is the blob that it starts as, empty where it is kept and not carried. ``batch`` is N.
    """

    dtype: ir.DataType
    dims: tuple[Dim, ...]
    initial: str = ""
    batch: Dim = 1

    @property
    def lead(self) -> tuple[Dim, ...]:
        """The first dims of its row, [1, N, D]."""
        return (1, self.batch)

    @property
    def is_row(self) -> bool:
        """Whether its dims are [1, N, D]."""
        return len(self.dims) == 3 and self.dims[:2] == self.lead

    @property
    def is_matrix(self) -> bool:
        """Whether its dims are [N, D]."""
        return len(self.dims) == 2 and self.dims[:1] == self.lead[1:]

    @property
    def has_batch(self) -> bool:
        """Whether its dims are [1, N, ...] or [N, ...], two at least."""
        return self.dims[:2] == self.lead or (len(self.dims) > 1 and self.dims[:1] == self.lead[1:])

    def first_row(self, op: Op) -> Value:
        """Return what the state starts from; zeros, which no step reads, for what is kept and not carried."""
        if self.initial:
            value = as_float(op, op.blob(self.initial, self.dtype))
            is_direct = self.is_row or self.is_matrix or len(self.dims) == 1
            return value if is_direct else value.reshape([1, 1, -1])
        rest = self.dims[2:] if self.dims[:2] == self.lead else self.dims[1:] if self.has_batch else self.dims
        width = product(op, sizes(op, rest))
        if width.integer is not None:
            return op.const(np.zeros(op.bounded(width.integer)), FLOAT)
        return op.emit("ConstantFill", width, input_as_shape=1, dtype=FLOAT, value=0.0)

    def from_row(self, op: Op, row: Value) -> Value:
        """Return a row as the value that it holds; always a new blob."""
        if self.is_row:
            value = op.emit("Copy", row)
        elif self.is_matrix or len(self.dims) < 2:
            value = op.emit("Squeeze", row, dims=list(range(3 - len(self.dims))))
        elif all(isinstance(dim, int) for dim in self.dims):
            value = reshape(op, row, sizes(op, self.dims))
        else:
            value = op.emit("ResizeLike", row, op.blob(self.initial, self.dtype))
        return from_float(op, value, self.dtype)

    def to_row(self, op: Op, value: Value, before: Value, *, is_certain: bool) -> Value:
        """Return a value as the row after ``before``, in a new blob.

        Caffe2 drops, without an error, what does not fit the row. ResizeLike checks that the number of elements is the
        same; it is not needed where the dims are certain.
        """
        value = as_float(op, value)
        if is_certain and self.is_row:
            return op.emit("Copy", value)
        if is_certain and self.is_matrix:
            return op.emit("ExpandDims", value, dims=[0])
        return op.emit("ResizeLike", value, before)

    def of_all_steps(self, op: Op, rows: Value, dims: Sequence[Dim]) -> Value:
        """Return the rows of all steps, [T, N, D], as values of ``dims``, [T, ...]; always a new blob."""
        if len(dims) == 2 and dims[0] == self.batch:
            value = op.emit("Copy", rows)
        elif len(dims) < 2 and self.batch == 1:
            value = op.emit("Squeeze", rows, dims=list(range(1, 3 - len(dims))))
        else:
            value = reshape(op, rows, [0, *sizes(op, dims)])
        return from_float(op, value, self.dtype)


@dataclass(frozen=True)
class Stacked:
    """A result that is kept of every step: its dims, and the index of the state that holds it."""

    state: int
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Linked:
    """A sequence whose rows are links: its index among the scan inputs, and the dims of a row where they are known.

    The first sequence determines T and N, so that it is made [T, N, ...].
    """

    index: int
    dims: tuple[Dim, ...] | None
    batch: Dim
    is_first: bool

    @property
    def has_one(self) -> bool:
        """Whether a row is [1, N, ...], as a link gives it where the sequence is [T, N, ...]."""
        return self.dims is not None and len(self.dims) > 1 and self.dims[:2] == (1, self.batch)

    def whole(self, op: Op, sequence: Value) -> Value:
        """Return the sequence, [T, ...], in the shape in which it is linked."""
        if self.has_one:
            return op.emit("Squeeze", sequence, dims=[1])
        return op.emit("ExpandDims", sequence, dims=[1]) if self._has_more else sequence

    def row(self, op: Op, linked: Value) -> Value:
        """Return what the link gives, in the shape of a row; always a new blob."""
        if self.has_one:
            return op.emit("Copy", linked)
        return op.emit("Squeeze", linked, dims=[0, 1] if self._has_more else [0])

    @property
    def _has_more(self) -> bool:
        """Whether the sequence gets a dim of one for N."""
        return self.is_first and (self.dims is None or self.dims[:1] != (self.batch,))


@dataclass(frozen=True)
class RowPlan:
    """The states: those of the Scan, then one for each result that is not a reshaped state.

    ``is_certain`` holds for every state whether its value after a step certainly has its dims. ``linked`` are the
    sequences that are links.
    """

    states: tuple[Carried, ...]
    is_certain: tuple[bool, ...]
    stacked: tuple[Stacked, ...]
    linked: tuple[Linked, ...]


def plan_rows(
    op: Op,
    body: ir.Graph,
    initial: Sequence[ir.Value],
    sequences: Sequence[tuple[ir.Value, int]],
    linked: Sequence[int],
) -> RowPlan | None:
    """Return the states and links by which a RecurrentNetwork computes a Scan; None if it cannot, or for unknown dims.

    Args:
        op: the Scan.
        body: its body.
        initial: the states before the first step.
        sequences: its scan inputs, each with the axis that it is scanned along.
        linked: which of them are to be links.
    """
    known = _Dims(op, body, initial, sequences)
    states = [_carried(value, known.of(value, str(value.name)), str(value.name)) for value in initial]
    after = [known.of(value) for value in body.outputs[: len(states)]]
    is_certain = [state is not None and dims == state.dims for state, dims in zip(states, after, strict=True)]
    roots = [_reshaped_from(body, value) for value in body.outputs]
    stacked = []
    for value, (root, changes) in zip(body.outputs[len(initial) :], roots[len(initial) :], strict=True):
        same = next((i for i, (other, _) in enumerate(roots[: len(initial)]) if other is root), len(states))
        if same == len(states):
            states.append(_carried(value, known.of(value)))
            is_certain.append(False)
        state = states[same]
        if state is None:
            return None
        if same < len(initial):
            dims = _reshaped(state.dims, roots[same][1], changes)
            if dims is None:
                return None
            stacked.append(Stacked(same, dims))
        else:
            stacked.append(Stacked(same, state.dims))
    carried = [state for state in states if state is not None]
    if not states or len(carried) < len(states):
        return None
    rows = [_row(known, *sequences[i]) for i in linked]
    batch = _batch(carried, rows[0] if rows else None)
    return RowPlan(
        tuple(replace(state, batch=batch) for state in carried),
        tuple(is_certain),
        tuple(stacked),
        tuple(Linked(index, row, batch, index == linked[0]) for index, row in zip(linked, rows, strict=True)),
    )


def sizes(op: Op, dims: Sequence[Dim]) -> list[Size]:
    """Return dims as numbers, and blobs of those that are known at run time only."""
    return [dim if isinstance(dim, int) else dim_of(op, op.blob(dim[0], UNDEFINED), dim[1]) for dim in dims]


class _Dims:
    """Dims of the values in and around a Scan: a symbolic dim is the same number everywhere in a model."""

    def __init__(
        self,
        op: Op,
        body: ir.Graph,
        initial: Sequence[ir.Value],
        sequences: Sequence[tuple[ir.Value, int]],
    ) -> None:
        self.named: dict[str, Dim] = {}
        for value in (*initial, *(value for value, _ in sequences), *captured_values(op.node)):
            self._note(value.shape, [(str(value.name), axis) for axis in _axes(value)])
        formals = iter(body.inputs)
        for value in initial:
            self._note(next(formals).shape, [(str(value.name), axis) for axis in _axes(value)])
        for value, scanned in sequences:
            self._note(next(formals).shape, [(str(value.name), axis) for axis in _axes(value) if axis != scanned])

    def _note(self, shape: ir.Shape | None, axes: Sequence[tuple[str, int]]) -> None:
        for dim, axis in zip(shape or (), axes, strict=False):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                self.named.setdefault(dim.value, axis)

    def of(self, value: ir.Value, blob: str = "") -> tuple[Dim, ...] | None:
        """Return the dims of a value; with a blob, unnamed dims are dims of that. None where one is unknown."""
        if value.shape is None:
            return None
        dims = tuple(self._each(value.shape, blob))
        known = tuple(dim for dim in dims if dim is not None)
        return known if len(known) == len(dims) else None

    def _each(self, shape: ir.Shape, blob: str) -> Iterator[Dim | None]:
        for axis, dim in enumerate(shape):
            if isinstance(dim, int):
                yield dim
            elif dim.value in self.named:
                yield self.named[dim.value]
            else:
                yield (blob, axis) if blob else None


def _row(known: _Dims, sequence: ir.Value, axis: int) -> tuple[Dim, ...] | None:
    dims = known.of(sequence, str(sequence.name))
    return _without(dims, [axis]) if dims else None


def _axes(value: ir.Value) -> range:
    return range(0 if value.shape is None else len(value.shape))


def _carried(value: ir.Value, dims: tuple[Dim, ...] | None, initial: str = "") -> Carried | None:
    """Return how a value is carried; None if float does not hold its type exactly, or it has no elements to link to."""
    if value.dtype is None or value.dtype not in HELD_BY_FLOAT or dims is None or 0 in dims:
        return None
    return Carried(value.dtype, dims, initial)


def _batch(carried: Sequence[Carried], row: tuple[Dim, ...] | None) -> Dim:
    """Return the N of all states and of the sequence with such rows, [1, N, ...] or [N, ...]; 1 if they share none."""
    row = row or ()
    for batch in (*(row[1:2] if row[:1] == (1,) else ()), *row[:1]):
        states = [replace(state, batch=batch) for state in carried]
        if all(state.is_row or state.is_matrix or (state.has_batch and not state.initial) for state in states):
            return batch
    return 1


def _reshaped_from(body: ir.Graph, value: ir.Value) -> tuple[ir.Value, list[tuple[str, list[int]]]]:
    """Return the value that another is a reshape of, and the operators between, the last one first, with their axes."""
    changes: list[tuple[str, list[int]]] = []
    while (node := value.producer()) is not None and node.graph is body and not node.domain:
        source = node.inputs[0] if node.inputs else None
        axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
        if source is None or not (node.op_type == "Identity" or (node.op_type in _RESHAPING and axes is not None)):
            break
        if axes is not None:
            changes.append((node.op_type, [int(axis) for axis in axes.numpy().reshape(-1)]))
        value = source
    return value, changes


def _reshaped(
    dims: tuple[Dim, ...], undone: Sequence[tuple[str, list[int]]], applied: Sequence[tuple[str, list[int]]]
) -> tuple[Dim, ...] | None:
    """Return the dims before some operators and after others, latest first; None if the dims have no such axes."""
    steps = [(kind != "Squeeze", axes) for kind, axes in undone]
    steps += [(kind == "Squeeze", axes) for kind, axes in reversed(applied)]
    for drops, axes in steps:
        if drops and not all(-len(dims) <= axis < len(dims) for axis in axes):
            return None
        dims = _without(dims, axes) if drops else _with_ones(dims, axes)
    return dims


def _with_ones(dims: tuple[Dim, ...], axes: Sequence[int]) -> tuple[Dim, ...]:
    rank = len(dims) + len(axes)
    ones = {axis % rank for axis in axes}
    rest = iter(dims)
    return tuple(1 if axis in ones else next(rest) for axis in range(rank))


def _without(dims: tuple[Dim, ...], axes: Sequence[int]) -> tuple[Dim, ...]:
    gone = {axis % len(dims) for axis in axes}
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)
