"""Inputs that fit the shapes and dtypes that a model declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto

from caffe2_bridge.bounds import MAX_RANK, current_limits, hint_of
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.model import Model
from caffe2_validation.inputs.dims import Dims
from caffe2_validation.inputs.random_values import Scene, draw
from caffe2_validation.roles import Role, find_roles
from caffe2_validation.sizes import SIZES, Size

# Height and width of images, their channels, and the frames of videos, if the model leaves them open.
IMAGE: Final = 32
CHANNELS: Final = 3
FRAMES: Final = 8
_IMAGE_RANKS: Final = (4, 5)


@dataclass(frozen=True)
class Case:
    """Inputs for one run; ``seed`` is None if they were given."""

    name: str
    inputs: Mapping[str, Any] = field(repr=False)
    seed: int | None = None


def given_case(inputs: Mapping[str, Any]) -> Case:
    """Return the case of inputs that the caller gave."""
    return Case("given", dict(inputs))


def make_cases(
    model: onnx.ModelProto,
    net: Model | None = None,
    *,
    seed: int = 2018,
    sizes: Sequence[Size] = SIZES,
    fixed: Mapping[str, int] | None = None,
) -> list[Case]:
    """Return cases of several sizes.

    Args:
        model: an ONNX model: the one to run, or the export of ``net``.
        net: the Caffe2 model, from which the roles of values follow.
        seed: of the random numbers.
        sizes: of open dims. Sizes that lead to the same shapes as an earlier one are left out.
        fixed: sizes of dims that are not free, by the symbols of :class:`Dims`.

    Raises RunError if an input is not a tensor of known rank.
    """
    layout = Layout(model, net, fixed or {})
    roles = layout.roles
    cases, seen = [], set()
    for index, size in enumerate(sizes):
        shapes = layout.shapes(size)
        key = tuple(shapes.values())
        if key in seen:
            continue
        seen.add(key)
        random = np.random.default_rng([seed, index])
        scene = Scene(size.steps, layout.image, shapes)
        made = {
            value.name: draw(_dtype(value), shapes[value.name], roles.get(value.name, Role()), random, scene)
            for value in layout.inputs
        }
        cases.append(Case(str(size) if shapes else "no inputs", made, seed))
    return cases


class Layout:
    """The shapes of a model's inputs, for given sizes and fixed dims.

    Attributes:
        inputs: the inputs that are not weights.
        roles: what their values mean.
        image: height and width of images.
    """

    def __init__(self, model: onnx.ModelProto, net: Model | None, fixed: Mapping[str, int]) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        self.inputs = [value for value in model.graph.input if value.name not in weights]
        self.roles = find_roles(model, net)
        self._dims = Dims(model, net)
        self._fixed = fixed
        sides = self.image_symbols()
        self.image = max((fixed.get(symbol, IMAGE) for symbol in sides), default=IMAGE)

    def shapes(self, size: Size) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input. Raises RunError if one is not a tensor of known rank."""
        return {value.name: self._shape(value, size) for value in self.inputs}

    def symbols(self) -> list[str]:
        """Return the symbols of open dims, each once."""
        dims = (dim for value in self.inputs if _has_rank(value) for dim in self._dims.of(value.name))
        return list(dict.fromkeys(dim for dim in dims if isinstance(dim, str)))

    def image_symbols(self) -> list[str]:
        """Return the symbols of heights and widths, of images and of videos [N,C,T,H,W]."""
        shapes = [self._dims.of(value.name) for value in self.inputs if _has_rank(value)]
        dims = (dim for shape in shapes if len(shape) in _IMAGE_RANKS for dim in shape[1 if len(shape) == 4 else 3 :])
        return [dim for dim in dict.fromkeys(dims) if isinstance(dim, str) and not self._dims.is_batch(dim)]

    def image_sides(self, height: int, width: int) -> dict[str, int]:
        """Return the sizes of the open heights and widths, by symbol; the channels are taken to come first."""
        sides: dict[str, int] = {}
        for value in self.inputs:
            dims = self._dims.of(value.name) if _has_rank(value) else []
            if len(dims) in _IMAGE_RANKS:
                sides |= {
                    dim: size for dim, size in zip(dims[-2:], (height, width), strict=True) if isinstance(dim, str)
                }
        return sides

    def _shape(self, value: onnx.ValueInfoProto, size: Size) -> tuple[int, ...]:
        if not _has_rank(value):
            raise RunError(f"input {value.name!r} has unknown rank: give inputs, or describe it (--input)")
        dims = self._dims.of(value.name)
        columns = self.roles.get(value.name, Role()).columns
        if columns and dims and isinstance(dims[-1], str):
            dims[-1] = columns
        return _bounded(
            value.name,
            tuple(
                dim if isinstance(dim, int) else self._fixed.get(dim, self._size(dim, axis, len(dims), size))
                for axis, dim in enumerate(dims)
            ),
        )

    def _size(self, symbol: str, axis: int, rank: int, size: Size) -> int:
        if self._dims.is_steps(symbol):
            return size.steps
        if self._dims.is_batch(symbol):
            return size.batch
        if self._dims.has_sequences and rank == 3 and axis < 2:
            return (size.steps, size.batch)[axis]
        if axis == 0:
            return size.batch
        if rank in _IMAGE_RANKS:
            return CHANNELS if axis == 1 else FRAMES if axis == rank - 3 else IMAGE
        return size.other


def _bounded(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of an input. Raises RunError for too many dims, or if doubles of it would exceed the limit."""
    if len(shape) > MAX_RANK:
        raise RunError(f"input {name!r} has {len(shape):,} dims; at most {MAX_RANK} are supported: give inputs")
    # NumPy counts the elements of an array without any by its other dims.
    wanted, allowed = 8 * prod(dim for dim in shape if dim), current_limits().constant_bytes
    if wanted > allowed:
        reason = f"input {name!r} of shape {list(shape)} is too large to be synthesized: {wanted:,} bytes"
        raise RunError(f"{reason}, and {allowed:,} are allowed ({hint_of('constant_bytes', wanted)}, or give inputs)")
    return shape


def _has_rank(value: onnx.ValueInfoProto) -> bool:
    return value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.HasField("shape")


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    kind = value.type.tensor_type.elem_type
    if kind == TensorProto.STRING:
        return np.dtype(object)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))  # noqa: TID251 - a table of types, no graph is built
