"""Lookups by lengths in tables, and their gradients, which compiled loops can do around what onnxruntime computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
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
_FLOAT, _INT32, _UINT8 = (np.dtype(np.float32),), (np.dtype(np.int32),), (np.dtype(np.uint8),)
# The bytes of scale and bias at the end of fused rows, by the bits of a code.
_TAILS: Final = {8: 8, 4: 4, 2: 4}


class Need(NamedTuple):
    """What loops take as an operand, of which this has the index: the element types, and whether it is a vector.

    ``tail``: the bytes of scale and bias at the end of fused rows, if it is a table of these.
    """

    operand: int
    dtypes: tuple[np.dtype[Any], ...]
    is_vector: bool = False
    tail: int = 0

    def admits(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
        """Whether an operand of this element type and shape is taken."""
        if dtype not in self.dtypes:
            return False
        if self.is_vector:
            return len(shape) == 1
        return len(shape) == 2 and shape[1] > self.tail if self.tail else bool(shape)


@dataclass(frozen=True)
class Form:
    """The indices of the operands of a lookup, or of a gradient of one; None for those that it does not have.

    ``bits``: of the codes of a table of fused rows; 32 if its elements are floats.
    """

    lengths: int
    ids: int
    table: int | None = None
    weights: int | None = None
    grads: int | None = None
    is_mean: bool = False
    bits: int = 32

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What the loops take."""
        vectors = ((self.lengths, _INT32), (self.ids, IDS), (self.weights, _FLOAT))
        found = [Need(index, dtypes, is_vector=True) for index, dtypes in vectors if index is not None]
        if self.table is not None:
            dtypes = _FLOAT if self.bits == 32 else _UINT8
            found.append(Need(self.table, dtypes, tail=_TAILS.get(self.bits, 0)))
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
GRADIENTS: Final[Mapping[str, Form]] = {
    f"{_PREFIX}MeanGradient": Form(lengths=1, ids=2, grads=0, is_mean=True),
    f"{_PREFIX}SumGradient": Form(lengths=1, ids=2, grads=0),
    f"{_PREFIX}WeightedSumGradient": Form(lengths=2, ids=3, grads=1, weights=0),
    f"{_PREFIX}WeightedSumWithMainInputGradient": Form(lengths=2, ids=4, table=3, grads=1, weights=0),
}


def form_of(op: OpView, forms: Mapping[str, Form]) -> Form | None:
    """Return the form of an operator, if it is one of these and lists its operands and outputs."""
    form = forms.get(op.type)
    if form is None or op.proto.domain:
        return None
    last = max(need.operand for need in form.needs)
    outputs = 1 if form.table is None or form.grads is None else 2
    return form if (len(op.inputs), len(op.outputs)) == (last + 1, outputs) else None


def takes(form: Form, operands: Sequence[Any]) -> bool:
    """Whether the loops take these operands: vectors of their element types, gradients, and tables without a copy."""
    for need in form.needs:
        value = operands[need.operand]
        if not isinstance(value, np.ndarray) or not need.admits(value.dtype, value.shape):
            return False
    return form.table is None or operands[form.table].flags.carray


def compute_gradients(op: OpView, form: Form, operands: Sequence[Any]) -> tuple[Array, ...]:
    """Return a gradient's outputs. Raises RunError for other types than ``takes``, and as :func:`compute`."""
    if not takes(form, operands):
        raise RunError(f"{op.type} takes float gradients, int32 lengths and ids of int32 or int64, as vectors")
    return compute(op, form, operands)


def compute(op: OpView, form: Form, operands: Sequence[Array]) -> tuple[Array, ...]:
    """Return a lookup's or gradient's outputs, from what it takes.

    Raises RunError for ids that are no rows, and sizes that do not fit.
    """
    ids, lengths = as_plain(operands[form.ids]), as_plain(operands[form.lengths])
    weights = _ONE if form.weights is None else as_plain(operands[form.weights])
    made = None
    if form.weights is None or weights.size == ids.size:
        if form.grads is None:
            made = _looked_up(form, operands, ids, lengths, weights)
        else:
            made = _gradients(form, operands, ids, lengths, weights)
    if made is None:
        raise RunError(f"{op.type} takes ids of rows, as many as the lengths add up to, and operands of their sizes")
    return made


def _looked_up(
    form: Form, operands: Sequence[Array], ids: Array, lengths: Array, weights: Array
) -> tuple[Array, ...] | None:
    assert form.table is not None
    table = operands[form.table]
    if form.bits < 32:
        return _looked_up_codes(form, table, ids, lengths, weights)
    out = np.empty((lengths.size, *table.shape[1:]), np.float32)
    fits = kernels.compiled(kernels.look_up)(ids, lengths, as_rows(table), weights, form.is_mean, as_rows(out))
    return (out,) if fits else None


def _looked_up_codes(form: Form, table: Array, ids: Array, lengths: Array, weights: Array) -> tuple[Array, ...] | None:
    """Look up rows of a contiguous table of fused rows."""
    width = (table.shape[1] - _TAILS[form.bits]) * (8 // form.bits)
    out = np.empty((lengths.size, width), np.float32)
    if form.bits == 8:
        fits = kernels.compiled(kernels.look_up_bytes)(ids, lengths, table, weights, form.is_mean, out)
    else:
        fits = kernels.compiled(kernels.look_up_packed)(
            ids, lengths, table, _halves(), weights, form.bits, form.is_mean, out
        )
    return (out,) if fits else None


@cache
def _halves() -> Array:
    """Return the float32 of all bits of a float16."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def _gradients(
    form: Form, operands: Sequence[Array], ids: Array, lengths: Array, weights: Array
) -> tuple[Array, ...] | None:
    assert form.grads is not None
    grads = operands[form.grads]
    out = np.empty((ids.size, *grads.shape[1:]), np.float32)
    if len(grads) != lengths.size or not kernels.compiled(kernels.spread)(
        lengths, as_rows(grads), weights, form.is_mean, as_rows(out)
    ):
        return None
    if form.table is None:
        return (out,)
    table, of_weights = operands[form.table], np.empty(ids.size, np.float32)
    fits = table.shape[1:] == grads.shape[1:] and kernels.compiled(kernels.weight_gradients)(
        ids, lengths, as_rows(table), as_rows(grads), of_weights
    )
    return (out, of_weights) if fits else None


def as_rows(array: Array) -> Array:
    """Return the array as a matrix; a view of it if it is plain."""
    array = as_plain(array)
    return array if array.ndim == 2 else array.reshape(len(array), prod(array.shape[1:]))


def as_plain(array: Array) -> Array:
    """Return the array contiguous, aligned and writable: loops would be compiled for each other kind of array."""
    return array if array.flags.carray else np.array(array, order="C")
