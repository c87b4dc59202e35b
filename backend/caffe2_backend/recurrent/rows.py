"""The values of a Scan as states of a RecurrentNetwork, which are float [T + 1, N, D], one N for all of them.

N is the batch where every state is [N, D] or [1, N, D] and a sequence is [T, N, ...]; else N is 1, and a row is all of
a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.emit.shapes import FLOAT_HOLDS, Part, as_float, dim_of, from_float, product, reshaped
from caffe2_backend.lowering.op import CAFFE2_TYPES, FLOAT, Op
from caffe2_frontend.interop.bodies import captured_values

# A number, or an axis of a blob that has that dim when the net runs.
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

    def first_row(self, op: Op) -> str:
        """What the state starts from; zeros that no step reads for what is not carried."""
        if self.initial:
            blob = as_float(op, self.initial, self.dtype)
            direct = self.is_row or self.is_matrix or len(self.dims) == 1
            return blob if direct else op.reshape(blob, [1, 1, -1])
        rest = self.dims[2:] if self.dims[:2] == self.lead else self.dims[1:] if self.has_batch else self.dims
        width = product(op, parts(op, rest))
        if isinstance(width, int):
            return op.const(np.zeros(width, np.float32))
        return op.emit("ConstantFill", width, input_as_shape=1, dtype=CAFFE2_TYPES[FLOAT], value=0.0)

    def from_row(self, op: Op, row: str) -> str:
        """A row as the value that it holds; always a new blob."""
        if self.is_row:
            blob = op.emit("Copy", row)
        elif self.is_matrix or len(self.dims) < 2:
            blob = op.emit("Squeeze", row, dims=list(range(3 - len(self.dims))))
        elif all(isinstance(dim, int) for dim in self.dims):
            blob = reshaped(op, row, parts(op, self.dims))
        else:
            blob = op.emit("ResizeLike", row, self.initial)
        return from_float(op, blob, self.dtype)

    def to_row(self, op: Op, blob: str, before: str, *, is_certain: bool) -> str:
        """A value as the row after ``before``, in a new blob.

        Caffe2 loses, without a word, what does not fit the row. ResizeLike sees that the number of entries is the same;
        it is not needed where the dims are certain.
        """
        blob = as_float(op, blob, self.dtype)
        if is_certain and self.is_row:
            return op.emit("Copy", blob)
        if is_certain and self.is_matrix:
            return op.emit("ExpandDims", blob, dims=[0])
        return op.emit("ResizeLike", blob, before)

    def of_all_steps(self, op: Op, rows: str, dims: Sequence[Dim]) -> str:
        """The rows of all steps, [T, N, D], as values of ``dims``, [T, ...]; always a new blob."""
        if len(dims) == 2 and dims[0] == self.batch:
            blob = op.emit("Copy", rows)
        elif len(dims) < 2 and self.batch == 1:
            blob = op.emit("Squeeze", rows, dims=list(range(1, 3 - len(dims))))
        else:
            blob = reshaped(op, rows, [0, *parts(op, dims)])
        return from_float(op, blob, self.dtype)


@dataclass(frozen=True)
class Stacked:
    """A result that is kept of every step: of ``dims``, in state number ``state``."""

    state: int
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Linked:
    """A sequence whose rows are links: number ``index`` of the scan inputs, each row of it of ``dims`` where known.

    The first says what T and N are, so that it is made [T, N, ...].
    """

    index: int
    dims: tuple[Dim, ...] | None
    batch: Dim
    is_first: bool

    @property
    def has_one(self) -> bool:
        """Whether a row is [1, N, ...], as a link gives it where the sequence is [T, N, ...]."""
        return self.dims is not None and len(self.dims) > 1 and self.dims[:2] == (1, self.batch)

    def whole(self, op: Op, blob: str) -> str:
        """The sequence, [T, ...], as it is linked."""
        if self.has_one:
            return op.emit("Squeeze", blob, dims=[1])
        return op.emit("ExpandDims", blob, dims=[1]) if self._has_more else blob

    def row(self, op: Op, linked: str) -> str:
        """What the link gives, as the row that it is; always a new blob."""
        if self.has_one:
            return op.emit("Copy", linked)
        return op.emit("Squeeze", linked, dims=[0, 1] if self._has_more else [0])

    @property
    def _has_more(self) -> bool:
        """Whether the sequence gets a dim of one for N."""
        return self.is_first and (self.dims is None or self.dims[:1] != (self.batch,))


@dataclass(frozen=True)
class Plan:
    """Which states there are: those of the Scan, then those of results that are no state in another shape.

    ``is_certain`` says of every state whether its value after a step is known to have its dims. ``linked`` are the
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
) -> Plan | None:
    """How a RecurrentNetwork carries what a Scan does; None where it cannot, or where too little is known.

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
            stacked.append(Stacked(same, _applied(changes, _undone(roots[same][1], state.dims))))
        else:
            stacked.append(Stacked(same, state.dims))
    carried = [state for state in states if state is not None]
    if not states or len(carried) < len(states):
        return None
    rows = [_row(known, *sequences[i]) for i in linked]
    batch = _batch(carried, rows[0] if rows else None)
    return Plan(
        tuple(replace(state, batch=batch) for state in carried),
        tuple(is_certain),
        tuple(stacked),
        tuple(Linked(index, row, batch, index == linked[0]) for index, row in zip(linked, rows, strict=True)),
    )


def parts(op: Op, dims: Sequence[Dim]) -> list[Part]:
    """Dims as numbers, and blobs of those that are only known when the net runs."""
    return [dim if isinstance(dim, int) else dim_of(op, *dim) for dim in dims]


class _Dims:
    """Dims of the values in and around a Scan: a name stands for one number everywhere in a model."""

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

    def _note(self, shape: ir.Shape | None, places: Sequence[tuple[str, int]]) -> None:
        for dim, place in zip(shape or (), places, strict=False):
            if isinstance(dim, ir.SymbolicDim) and dim.value is not None:
                self.named.setdefault(dim.value, place)

    def of(self, value: ir.Value, blob: str = "") -> tuple[Dim, ...] | None:
        """The dims of a value; of one with a blob those without a name too. None where one cannot be told."""
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
    return None if dims is None else _without(dims, [axis])


def _axes(value: ir.Value) -> range:
    return range(0 if value.shape is None else len(value.shape))


def _carried(value: ir.Value, dims: tuple[Dim, ...] | None, initial: str = "") -> Carried | None:
    """None where float does not hold the element type, or there are no entries to link to."""
    if value.dtype is None or value.dtype not in FLOAT_HOLDS or dims is None or 0 in dims:
        return None
    return Carried(value.dtype, dims, initial)


def _batch(carried: Sequence[Carried], row: tuple[Dim, ...] | None) -> Dim:
    """The N of all states and of the sequence that has such rows, [1, N, ...] or [N, ...]; 1 where they have none."""
    row = row or ()
    for batch in (*(row[1:2] if row[:1] == (1,) else ()), *row[:1]):
        states = [replace(state, batch=batch) for state in carried]
        if all(state.is_row or state.is_matrix or (state.has_batch and not state.initial) for state in states):
            return batch
    return 1


def _reshaped_from(body: ir.Graph, value: ir.Value) -> tuple[ir.Value, list[tuple[str, list[int]]]]:
    """The value that one is in another shape, and the operators between, the last one first, with their axes."""
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


def _undone(changes: Sequence[tuple[str, list[int]]], dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The dims of what the operators were applied to."""
    for kind, axes in changes:
        dims = _with_ones(dims, axes) if kind == "Squeeze" else _without(dims, axes)
    return dims


def _applied(changes: Sequence[tuple[str, list[int]]], dims: tuple[Dim, ...]) -> tuple[Dim, ...]:
    for kind, axes in reversed(changes):
        dims = _without(dims, axes) if kind == "Squeeze" else _with_ones(dims, axes)
    return dims


def _with_ones(dims: tuple[Dim, ...], axes: Sequence[int]) -> tuple[Dim, ...]:
    rank = len(dims) + len(axes)
    ones = {axis % rank for axis in axes}
    rest = iter(dims)
    return tuple(1 if axis in ones else next(rest) for axis in range(rank))


def _without(dims: tuple[Dim, ...], axes: Sequence[int]) -> tuple[Dim, ...]:
    gone = {axis % len(dims) for axis in axes}
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)
