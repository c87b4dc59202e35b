"""Lookups by lengths in tables, and their gradients, which compiled loops can do around what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from caffe2_backend.runtime.program.row_updates import kernels
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.views import OpView

_ONE: Final = np.ones(1, np.float32)
# The element types that ids may have.
IDS: Final = (np.dtype(np.int32), np.dtype(np.int64))
FLOAT: Final = np.dtype(np.float32)
_FLOAT, _INT32, _UINT8 = (FLOAT,), (np.dtype(np.int32),), (np.dtype(np.uint8),)
# The bytes of scale and bias at the end of fused rows, by the bits of a code.
_TAILS: Final = {8: 8, 4: 4, 2: 4}


class Need(NamedTuple):
    """What loops take as an operand, of which this has the index: the element types, and whether it is a vector.

    ``tail``: the bytes of scale and bias at the end of fused rows, if it is a table of these. ``is_table``: whether it
    is a table, which is not copied.
    """

    operand: int
    dtypes: tuple[np.dtype[Any], ...]
    is_vector: bool = False
    tail: int = 0
    is_table: bool = False


@dataclass(frozen=True)
class Form:
    """The indices of the operands of a lookup, or of a gradient of one; None for those that it does not have.

    ``bits``: of the codes of a table of fused rows; 32 if its elements are floats.
    """

    ids: int
    lengths: int | None = None
    table: int | None = None
    weights: int | None = None
    grads: int | None = None
    is_mean: bool = False
    bits: int = 32

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What the loops take."""
        vectors = ((self.lengths, _INT32), (self.ids, IDS), (self.weights, _FLOAT))
        found = [Need(index, dtypes, self.lengths is not None) for index, dtypes in vectors if index is not None]
        if self.table is not None:
            dtypes = _FLOAT if self.bits == 32 else _UINT8
            found.append(Need(self.table, dtypes, tail=_TAILS.get(self.bits, 0), is_table=True))
        if self.grads is not None:
            found.append(Need(self.grads, _FLOAT))
        return tuple(found)


_FORMS: Final = {
    "Mean": Form(lengths=2, ids=1, table=0, is_mean=True),
    "Sum": Form(lengths=2, ids=1, table=0),
    "WeightedSum": Form(lengths=3, ids=2, table=0, weights=1),
}
LOOKUPS: Final[Mapping[str, Form]] = {
    **{f"SparseLengths{kind}": form for kind, form in _FORMS.items()},
    **{f"SparseLengths{kind}Fused{bits}BitRowwise": replace(form, bits=bits)
       for kind, form in _FORMS.items() for bits in _TAILS},
}  # fmt: skip
_PREFIX: Final = "SparseLengthsIndicesInGradient"
# Lookups of one row for each id, which onnxruntime does as well where it runs other operators.
ROWS: Final[Mapping[str, Form]] = {"Gather": Form(ids=1, table=0)}
GRADIENTS: Final[Mapping[str, Form]] = {
    f"{_PREFIX}MeanGradient": Form(lengths=1, ids=2, grads=0, is_mean=True),
    f"{_PREFIX}SumGradient": Form(lengths=1, ids=2, grads=0),
    f"{_PREFIX}WeightedSumGradient": Form(lengths=2, ids=3, grads=1, weights=0),
    f"{_PREFIX}WeightedSumWithMainInputGradient": Form(lengths=2, ids=4, table=3, grads=1, weights=0),
}


def form_of(op: OpView, forms: Mapping[str, Form]) -> Form | None:
    """Return the form of an operator, if it is one of these and lists its operands and outputs, which are others."""
    form = forms.get(op.type)
    if form is None or op.proto.domain or not {*op.inputs}.isdisjoint(op.outputs):
        return None
    if form.lengths is None and op.proto.arg:
        return None
    last = max(need.operand for need in form.needs)
    outputs = 1 if form.table is None or form.grads is None else 2
    return form if (len(op.inputs), len(op.outputs)) == (last + 1, outputs) else None


def takes(needs: Iterable[Need], operands: Sequence[Any], *, partly: bool = False) -> bool:
    """Whether the loops take these operands: vectors of their element types, gradients, and tables without a copy.

    ``partly``: whether an operand may be None, of which nothing is known.
    """
    for at, dtypes, is_vector, tail, is_table in needs:
        value = operands[at]
        if value is None and partly:
            continue
        if not isinstance(value, np.ndarray) or value.dtype not in dtypes:
            return False
        if value.ndim != 1 if is_vector else not value.ndim or (tail and (value.ndim != 2 or value.shape[1] <= tail)):
            return False
        if is_table and not value.flags.carray:
            return False
    return True


def looker(op: OpView, form: Form) -> Callable[[Sequence[Array]], tuple[Array, ...]]:
    """Return what looks up rows, from operands that are taken: the output.

    It raises RunError for ids that are no rows, and sizes that do not fit. What surrounds a loop takes as long as the
    loop: hence nothing here is done that can be done once.
    """
    at_table, at_ids, at_lengths, at_weights = form.table, form.ids, form.lengths, form.weights
    assert at_table is not None
    if at_lengths is None:
        return partial(_each_row, op, at_table, at_ids)
    find = {32: _float_rows, 8: _byte_rows}.get(form.bits, partial(_packed_rows, form.bits))

    def run(operands: Sequence[Array]) -> tuple[Array, ...]:
        ids, lengths = operands[at_ids], operands[at_lengths]
        weights = _ONE if at_weights is None else operands[at_weights]
        if not (ids.flags.carray and lengths.flags.carray and weights.flags.carray):
            ids, lengths, weights = as_plain(ids), as_plain(lengths), as_plain(weights)
        out = None
        if at_weights is None or weights.size == ids.size:
            out = find(form.is_mean, ids, lengths, operands[at_table], weights)
        if out is None:
            raise _misfit(op)
        return (out,)

    return run


def _each_row(op: OpView, at_table: int, at_ids: int, operands: Sequence[Array]) -> tuple[Array, ...]:
    table, ids = operands[at_table], operands[at_ids]
    flat = require_rows(op, at_ids, ids, len(table), least=-len(table))
    rows = as_rows(table)
    out = np.empty((flat.size, rows.shape[1]), np.float32)
    kernels.compiled(kernels.take_rows)(flat, rows, out)
    return (out if ids.ndim == 1 and table.ndim == 2 else out.reshape(*ids.shape, *table.shape[1:]),)


def require_rows(op: OpView, at: int, ids: Array, rows: int, *, least: int = 0) -> Array:
    """Return the ids of an operator's operand as a vector. Raises RunError if one is not a row of the table.

    ``least``: the first id that is one: Gather counts negative ids from the end, and no other operator does.
    """
    flat = as_plain(ids)
    flat = flat if flat.ndim == 1 else flat.reshape(-1)
    if not kernels.compiled(kernels.are_rows)(flat, least, rows):
        wrong = flat.min() if flat.min() < least else flat.max()
        raise RunError(f"id {wrong} of blob {op.inputs[at]!r} must be one of {rows} rows")
    return flat


def _float_rows(is_mean: bool, ids: Array, lengths: Array, table: Array, weights: Array) -> Array | None:
    if table.ndim != 2:
        found = _float_rows(is_mean, ids, lengths, as_rows(table), weights)
        return None if found is None else found.reshape(-1, *table.shape[1:])
    out = np.empty((lengths.size, table.shape[1]), np.float32)
    return out if kernels.compiled(kernels.look_up)(ids, lengths, table, weights, is_mean, out) else None


def _byte_rows(is_mean: bool, ids: Array, lengths: Array, table: Array, weights: Array) -> Array | None:
    out = np.empty((lengths.size, table.shape[1] - _TAILS[8]), np.float32)
    return out if kernels.compiled(kernels.look_up_bytes)(ids, lengths, table, weights, is_mean, out) else None


def _packed_rows(
    bits: int,
    is_mean: bool,
    ids: Array,
    lengths: Array,
    table: Array,
    weights: Array,
) -> Array | None:
    out = np.empty((lengths.size, (table.shape[1] - _TAILS[bits]) * (8 // bits)), np.float32)
    look_up = kernels.compiled(kernels.look_up_packed)
    return out if look_up(ids, lengths, table, _halves(), weights, bits, is_mean, out) else None


@cache
def _halves() -> Array:
    """Return the float32 of all bits of a float16."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def spreader(op: OpView, form: Form) -> Callable[[Sequence[Any]], tuple[Array, ...]]:
    """Return what computes a gradient's outputs.

    It raises RunError for other operands than ``takes``, and sizes that do not fit.
    """
    needs, at_lengths, at_weights, at_grads, at_table = form.needs, form.lengths, form.weights, form.grads, form.table
    assert at_lengths is not None
    assert at_grads is not None

    def run(operands: Sequence[Any]) -> tuple[Array, ...]:
        if not takes(needs, operands):
            raise RunError(f"{op.type} takes float gradients, int32 lengths and ids of int32 or int64, as vectors")
        ids, lengths, grads = operands[form.ids], as_plain(operands[at_lengths]), operands[at_grads]
        weights = _ONE if at_weights is None else as_plain(operands[at_weights])
        rows, out = as_rows(grads), np.empty((ids.size, *grads.shape[1:]), np.float32)
        if (
            (at_weights is not None and weights.size != ids.size)
            or len(grads) != lengths.size
            or not kernels.compiled(kernels.spread)(lengths, rows, weights, form.is_mean, as_rows(out))
        ):
            raise _misfit(op)
        return (out,) if at_table is None else (out, of_weights(as_plain(ids), lengths, rows, operands[at_table]))

    def of_weights(ids: Array, lengths: Array, grads: Array, table: Array) -> Array:
        rows, out = as_rows(table), np.empty(ids.size, np.float32)
        if rows.shape[1] != grads.shape[1] or not kernels.compiled(kernels.weight_gradients)(
            ids, lengths, rows, grads, out
        ):
            raise _misfit(op)
        return out

    return run


def _misfit(op: OpView) -> RunError:
    return RunError(f"{op.type} takes ids of rows, as many as the lengths add up to, and operands of their sizes")


def as_rows(array: Array) -> Array:
    """Return the array as a matrix; a view of it if it is plain."""
    array = as_plain(array)
    return array if array.ndim == 2 else array.reshape(len(array), prod(array.shape[1:]))


def as_plain(array: Array) -> Array:
    """Return the array contiguous, aligned and writable: loops would be compiled for each other kind of array."""
    return array if array.flags.carray else np.array(array, order="C")
