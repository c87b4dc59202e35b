"""Whether each row of a blob, all that belongs to one index of its first axis, has a known number of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from caffe2_bridge.cached import cached_property
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.operators import Shape, infer_shapes

Maker = Callable[[str, int], int | None]


class Rows:
    """Decide whether rows have a number of elements, from the operators that make a blob.

    Args:
        ops: the operators of the net.
        maker: from a blob and the index of a reader to the index of the operator that made the value: -1 where the
            value existed before the net runs, None where it is unknown.
        params: arrays of parameters.
        shapes: known shapes of other inputs.
    """

    def __init__(
        self, ops: Sequence[OpView], maker: Maker, params: Mapping[str, Any], shapes: Mapping[str, Sequence[int]]
    ) -> None:
        self._ops = ops
        self._maker = maker
        self._params = params
        self._shapes = shapes

    def have(self, name: str, reader: int, size: int) -> bool:
        """Whether the rows of the blob that an operator reads have ``size`` elements.

        For images of unknown height and width it suffices that ``size`` is a multiple of the channels.
        """
        shape = self._shape(name, reader)
        if not shape:
            return False
        if None not in shape[1:]:
            return math.prod(shape[1:]) == size
        return len(shape) > len("NCH") and bool(shape[1]) and size % shape[1] == 0

    def columns(self, name: str, reader: int) -> int | None:
        """Return the columns of the weights that an operator of type FC reads; None if they are unknown."""
        shape = self._shape(name, reader) if self._maker(name, reader) == -1 else None
        axis = self._ops[reader].args.integer("axis_w", default=1)
        return math.prod(shape[axis:]) if shape is not None and len(shape) > axis > 0 else None

    def _shape(self, name: str, reader: int) -> Shape | None:
        """Return the shape of a blob that an operator reads; None if its rank is unknown."""
        maker = self._maker(name, reader)
        return self._given(name) if maker == -1 else None if maker is None else self._made[maker].get(name)

    @cached_property
    def _made(self) -> list[Mapping[str, Shape | None]]:
        """The shapes of the results of each operator."""
        made: list[Mapping[str, Shape | None]] = []
        for index, op in enumerate(self._ops):
            makers = [self._maker(name, index) for name in op.inputs]
            inputs = [
                self._given(name) if maker == -1 else None if maker is None else made[maker].get(name)
                for name, maker in zip(op.inputs, makers, strict=True)
            ]
            found: list[Shape | None] = []
            with suppress(ArgumentError):  # reported when the operator is converted
                found = infer_shapes(op, inputs)[len(inputs) :]
            made.append(dict(zip(op.outputs, found, strict=False)))
        return made

    def _given(self, name: str) -> Shape | None:
        """Return the shape of a parameter or an input."""
        value = self._params.get(name)
        shape = self._shapes.get(name) if value is None else getattr(getattr(value, "data", value), "shape", None)
        return None if shape is None else tuple(map(int, shape))
