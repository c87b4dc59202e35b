"""Changes of operands: sizes, ranks, element types and elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from conformance.corpus import Array

from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.roles import Kind, Role, draw_role, role_of
from fuzz.exact.drawing.values import DTYPES, cast, draw_values

_SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 9)
_LARGEST_ELEMENTS = 20_000
_HARD_SHARE = 0.3


def resize(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Give all dims of one size another one; integer operands mostly keep what they are for."""
    sizes = sorted({dim for array in drawn.inputs.values() for dim in array.shape})
    if not sizes:
        return drawn
    old, new = int(random.choice(sizes)), int(random.choice(_SIZES))
    all_axes, keep = random.random() < 0.92, random.random() < 0.9
    resized = {
        name: [axis for axis, dim in enumerate(array.shape) if dim == old and (all_axes or random.random() < 0.5)]
        for name, array in drawn.inputs.items()
    }
    if sum(_size_with(array.shape, resized[name], new) for name, array in drawn.inputs.items()) > _LARGEST_ELEMENTS:
        return drawn
    inputs = {name: _resized(array, resized[name], new) for name, array in drawn.inputs.items()}
    if keep:
        roles = integer_roles(drawn)
        inputs = {name: _kept(array, roles.get(name), inputs, random) for name, array in inputs.items()}
    kept = old == new or (all_axes and keep)
    return _changed(drawn, inputs, f"{'' if all_axes else 'some '}dims of {old} become {new}", goes_together=kept)


def _size_with(shape: Sequence[int], axes: Sequence[int], size: int) -> int:
    """How many elements a shape has with other dims along some axes."""
    return prod(size if axis in axes else dim for axis, dim in enumerate(shape))


def change_rank(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Add a dim to one operand, or to all of its rank, or take one away."""
    if not drawn.inputs:
        return drawn
    name = str(random.choice(list(drawn.inputs)))
    rank = drawn.inputs[name].ndim
    chosen = [n for n, array in drawn.inputs.items() if array.ndim == rank] if random.random() < 0.5 else [name]
    adds = rank == 0 or (rank < 6 and random.random() < 0.5)
    axis, size = int(random.integers(0, rank + 1 if adds else rank)), int(random.choice([1, 1, 2, 3]))
    inputs = dict(drawn.inputs)
    for each in chosen:
        array = inputs[each]
        if adds:
            inputs[each] = np.repeat(np.expand_dims(array, axis), size, axis)
        elif array.shape[axis]:
            inputs[each] = np.moveaxis(array, axis, 0)[0, ...]
        else:
            inputs[each] = np.zeros(array.shape[:axis] + array.shape[axis + 1 :], array.dtype)
    said = f"{', '.join(chosen)} {'gain' if adds else 'lose'} a dim at {axis}"
    return _changed(drawn, inputs, said, goes_together=len(chosen) == len(inputs))


def change_dtype(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Give one operand, or all of its element type, another element type."""
    plain = [name for name, array in drawn.inputs.items() if array.dtype != object and name not in drawn.quantized]
    if not plain:
        return drawn
    name, dtype = str(random.choice(plain)), np.dtype(str(random.choice(DTYPES)))
    together = random.random() < 0.7
    chosen = [n for n in plain if together and drawn.inputs[n].dtype == drawn.inputs[name].dtype] or [name]
    inputs = {n: cast(array, dtype) if n in chosen else array for n, array in drawn.inputs.items()}
    return _changed(drawn, inputs, f"{', '.join(chosen)} become {dtype}")


def change_values(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """Draw the elements of one operand, or of all, anew."""
    if not drawn.inputs:
        return drawn
    hard = random.random() < _HARD_SHARE
    names = list(drawn.inputs)
    chosen = names if random.random() < 0.4 else [str(random.choice(names))]
    roles = integer_roles(drawn)
    inputs, said = dict(drawn.inputs), []
    goes_together = True
    for name in chosen:
        role = roles.get(name)
        if role is not None and (not hard or len(chosen) > 1) and role.kind is not Kind.NUMBERS:
            inputs[name] = _kept(inputs[name], role, inputs, random)
            said.append(f"{name}: {role.kind}")
        else:
            inputs[name], what = draw_values(inputs[name], random, hard=hard)
            goes_together &= not _counts(drawn, name)
            said.append(f"{name}: {what}")
    return _changed(drawn, inputs, "; ".join(said), goes_together=goes_together)


def _counts(drawn: Drawn, name: str) -> bool:
    """Whether an operand may index, count or size others: integers of none that are negative, beside other types."""
    array = drawn.inputs[name]
    others = {each.dtype for each in drawn.inputs.values()} - {array.dtype}
    return bool(others) and array.dtype.name in {"int32", "int64"} and bool((array >= 0).all())


def integer_roles(drawn: Drawn) -> dict[str, Role]:
    """The role of each integer operand."""
    return {name: role_of(name, drawn.inputs) for name, array in drawn.inputs.items() if array.dtype.kind in "iu"}


def _kept(array: Array, role: Role | None, inputs: dict[str, Array], random: np.random.Generator) -> Array:
    if role is None or role.kind is Kind.NUMBERS or array.ndim != 1:
        return array
    of = inputs[role.of]
    values = draw_role(role, array.size, len(of) if of.ndim else 1, random)
    return array if values is None else cast(values, array.dtype)


def _resized(array: Array, axes: list[int], size: int) -> Array:
    for axis in axes:
        old = array.shape[axis]
        if old:
            array = array.take(np.arange(size) % old, axis)
        else:
            shape = (*array.shape[:axis], size, *array.shape[axis + 1 :])
            filler = "" if array.dtype == object else 0
            array = np.full(shape, filler, array.dtype)
    return array


def _changed(drawn: Drawn, inputs: dict[str, Array], said: str, *, goes_together: bool = True) -> Drawn:
    unrelated = drawn.unrelated if goes_together else said
    return replace(drawn, inputs=inputs, trail=(*drawn.trail, said), unrelated=unrelated)
