"""Inputs that a model can run on, from what the model says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto

from caffe2_backend.runtime.values import Array
from caffe2_backend.validate.dims import Dims
from caffe2_backend.validate.roles import Role, find_roles
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model

_WORDS: Final = ("a", "net", "of", "words", "")
_IMAGE: Final = 32
_HIGHEST: Final = 3


@dataclass(frozen=True)
class Size:
    """One size to try: T steps, N rows, and what any other open dim is."""

    steps: int
    batch: int
    other: int

    def __str__(self) -> str:
        return f"T={self.steps} N={self.batch}"


SIZES: Final = (Size(1, 1, 2), Size(6, 3, 4), Size(17, 2, 5))


@dataclass(frozen=True)
class Case:
    """Inputs for one run. ``seed`` is None where they were given."""

    name: str
    inputs: Mapping[str, Any] = field(repr=False)
    seed: int | None = None


def given_case(inputs: Mapping[str, Any]) -> Case:
    """The case of inputs that the caller gave."""
    return Case("given", dict(inputs))


def make_cases(
    model: onnx.ModelProto, net: Model | None = None, *, seed: int = 2018, sizes: Sequence[Size] = SIZES
) -> list[Case]:
    """Cases of several sizes.

    Args:
        model: an ONNX model: the one to run, or the export of ``net``.
        net: the Caffe2 model, which says what integers mean.
        seed: of the random numbers.
        sizes: what to try. Sizes that give the same shapes as one before are left out.

    Raises RunError where an input is no tensor of a known rank.
    """
    dims, roles = Dims(model, net), find_roles(model, net)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    cases, seen = [], set()
    for index, size in enumerate(sizes):
        shapes = {value.name: _shape(value, dims, size) for value in inputs}
        key = tuple(shapes.values())
        if key in seen:
            continue
        seen.add(key)
        random = np.random.default_rng([seed, index])
        made: dict[str, Array] = {}
        for value in inputs:
            role = roles.get(value.name, Role())
            made[value.name] = _values(value, shapes[value.name], role, random, size, shapes)
        cases.append(Case(str(size) if shapes else "no inputs", made, seed))
    return cases


def _shape(value: onnx.ValueInfoProto, dims: Dims, size: Size) -> tuple[int, ...]:
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
        raise RunError(f"input {value.name!r}: neither its shape nor its rank is known: give inputs, or describe it")
    sizes = []
    for axis, dim in enumerate(dims.of(value.name)):
        if isinstance(dim, int):
            sizes.append(dim)
        elif dims.is_steps(dim):
            sizes.append(size.steps)
        elif dims.is_batch(dim):
            sizes.append(size.batch)
        elif dims.has_sequences and len(kind.shape.dim) == 3 and axis < 2:
            sizes.append((size.steps, size.batch)[axis])
        elif axis == 0:
            sizes.append(size.batch)
        elif len(kind.shape.dim) == 4:
            sizes.append(_IMAGE)
        else:
            sizes.append(size.other)
    return tuple(sizes)


def _values(
    value: onnx.ValueInfoProto,
    shape: tuple[int, ...],
    role: Role,
    random: np.random.Generator,
    size: Size,
    shapes: Mapping[str, tuple[int, ...]],
) -> Array:
    kind = value.type.tensor_type.elem_type
    if kind == TensorProto.STRING:
        texts = np.empty(int(np.prod(shape)), object)
        texts[:] = random.choice(_WORDS, texts.size).tolist()
        return texts.reshape(shape)
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))  # noqa: TID251 - a table of types, no graph is built
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    return _integers(shape, dtype, role, random, size, shapes)


def _integers(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    role: Role,
    random: np.random.Generator,
    size: Size,
    shapes: Mapping[str, tuple[int, ...]],
) -> Array:
    if role.parts:
        return _parts(shape, shapes.get(role.parts, (0,))[0], random).astype(dtype)
    if role.steps:
        lengths = random.integers(1, size.steps + 1, shape)
        if lengths.size:
            lengths.flat[0] = size.steps  # one row is as long as the sequence
        return lengths.astype(dtype)
    if role.below is not None:
        return random.integers(0, max(role.below, 1), shape).astype(dtype)
    return random.integers(0, 256 if dtype == np.uint8 else _HIGHEST, shape).astype(dtype)


def _parts(shape: tuple[int, ...], total: int, random: np.random.Generator) -> Array:
    """Lengths that add up to ``total``."""
    count = int(np.prod(shape))
    if not count:
        return np.zeros(shape, np.int64)
    cuts = np.sort(random.integers(0, total + 1, count - 1))
    return np.diff(np.concatenate([[0], cuts, [total]])).reshape(shape)
