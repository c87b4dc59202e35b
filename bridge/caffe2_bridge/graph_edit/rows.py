"""Whether each row of a blob, all that belongs to one index of its first axis, has a known number of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from caffe2_bridge.netdef.views import OpView

# The output has the shape of the first input.
_SAME_SHAPE: Final = frozenset({
    "Abs", "Cast", "Clip", "Copy", "Dropout", "Elu", "Exp", "GroupNorm", "HSwish", "InstanceNorm", "LRN", "LeakyRelu",
    "Log", "Logit", "Negative", "PRelu", "Relu", "Scale", "Selu", "Sigmoid", "Softplus", "Softsign", "SpatialBN",
    "StopGradient", "Sum", "Swish", "Tanh",
})  # fmt: skip
# Images, [N, C, H, W]: with a kernel of its own, or with the channels of the first input.
_CONVOLUTIONS: Final = frozenset({"Conv", "ConvTranspose"})
_IMAGES: Final = frozenset({
    "AveragePool", "LpPool", "MaxPool", "ResizeBilinear", "ResizeNearest", "RoIAlign", "RoIPool", "RoIPoolF",
    "UpsampleBilinear", "UpsampleNearest",
})  # fmt: skip

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
        name, index = self._source(name, reader, _SAME_SHAPE | {"Flatten"})
        if index == -1:
            shape = self._shape(name)
            return bool(shape) and math.prod(shape[1:]) == size
        if index is None:
            return False
        op = self._ops[index]
        if op.type == "FC" and op.args.integer("axis", default=1) == 1:
            weights = self._shape(op.inputs[1]) if self._maker(op.inputs[1], index) == -1 else ()
            return weights[:1] == (size,)
        return op.type in _CONVOLUTIONS | _IMAGES and self._image_has(op, index, size)

    def _source(self, name: str, reader: int, passed: frozenset[str]) -> tuple[str, int | None]:
        """Follow first inputs up through operators of some types: the blob there, and the operator that made it."""
        index = self._maker(name, reader)
        while index is not None and index >= 0 and self._ops[index].type in passed:
            op = self._ops[index]
            if op.type == "Flatten" and op.args.integer("axis", default=1) != 1:
                return name, None
            name = op.inputs[0]
            index = self._maker(name, index)
        return name, index

    def _image_has(self, op: OpView, index: int, size: int) -> bool:
        if op.args.text("order", default="NCHW") != "NCHW":
            return False
        channels = self._channels(op, index)
        if op.args.flag("global_pooling", default=False):
            return channels == size
        return channels is None or size % channels == 0

    def _channels(self, op: OpView, index: int) -> int | None:
        """The channels of an image, where the kernel of a convolution or the shape of an input gives them."""
        if op.type not in _CONVOLUTIONS:
            name, maker = self._source(op.inputs[0], index, _SAME_SHAPE | _IMAGES)
            if maker == -1:
                shape = self._shape(name)
                return shape[1] if len(shape) > 1 else None
            if maker is None or self._ops[maker].type not in _CONVOLUTIONS:
                return None
            op, index = self._ops[maker], maker
        kernel = self._shape(op.inputs[1]) if self._maker(op.inputs[1], index) == -1 else ()
        if len(kernel) < 2:
            return None
        return kernel[0] if op.type == "Conv" else kernel[1] * op.args.integer("group", default=1)

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter or an input; empty if it is unknown."""
        value = self._params.get(name)
        shape = self._shapes.get(name, ()) if value is None else getattr(getattr(value, "data", value), "shape", ())
        return tuple(map(int, shape))

    def columns(self, name: str, reader: int) -> int | None:
        """The columns of the weights that an operator of type FC reads; None if they are unknown."""
        if self._maker(name, reader) != -1:
            return None
        shape = self._shape(name)
        axis = self._ops[reader].args.integer("axis_w", default=1)
        return math.prod(shape[axis:]) if len(shape) > axis > 0 else None
