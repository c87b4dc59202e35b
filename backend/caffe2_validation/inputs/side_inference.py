"""Inference of shapes with arrays in place of the height and width of images, for all sizes at once.

Heights lie along axis 0 of the arrays and widths along axis 1. Each operator excludes the pairs that it refuses: a
matrix product behind a flattened image, a Reshape to constants, operands that must have one shape, a window that is
larger than its image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_bridge.netdef.views import NetView, OpView
from caffe2_bridge.netdef.window import window_argument
from caffe2_bridge.operators import infer_shapes
from caffe2_validation.inputs.specs import FRAMES
from caffe2_validation.inputs.weights import CONVOLUTIONS, SUMS

LARGEST: Final = 640
_POOLS: Final = frozenset({"MaxPool", "AveragePool", "LpPool", "Int8MaxPool", "Int8AveragePool"})
_TRANSPOSED: Final = frozenset({"ConvTranspose", "Int8ConvTranspose"})
_RESIZES: Final = frozenset({"ResizeNearest", "Int8ResizeNearest", "UpsampleBilinear"})
_IMAGES: Final = CONVOLUTIONS | _POOLS | {"SpatialBN", "InstanceNorm", "GroupNorm", "LRN"}
# Values of ``legacy_pad``.
_VALID, _SAME_PAD, _CAFFE = 1, 2, 3

Array: TypeAlias = np.ndarray[Any, Any]
# A number, or one for each height and width; None if it is unknown.
Dim: TypeAlias = int | Array | None
Dims: TypeAlias = tuple[Dim, ...]


class SideInference:
    """The shapes of blobs for all sizes of images, and the sizes that no operator excludes.

    Args:
        model: the net. Operators on blobs of unknown shape exclude nothing.
        batch: of the inputs that are images.
        frames: of the inputs that are videos.

    Attributes:
        has_videos: whether a window slides over an input in three dims.
        possible: whether the net admits an image of height ``i + 1`` and width ``j + 1``.
        preferred: the same of what the net does not need to run, but is likely: that a Reshape leaves each image of a
            batch in a row.
    """

    def __init__(self, model: Model, batch: int, frames: int = FRAMES) -> None:
        self._batch = batch
        self._frames = frames
        self.has_videos = False
        self._shapes: dict[str, Dims | None] = {n: p.shape for n, p in model.init.parameters.items()}
        self._sides = np.arange(1, LARGEST + 1)
        self.possible = np.ones((LARGEST, LARGEST), bool)
        self.preferred = self.possible.copy()
        self._inputs = set(model.inputs)
        for op in NetView(model.predict_net).ops:
            try:
                dims = self._operator(op)
            except (BridgeError, ValueError, IndexError):  # the operator itself reports it when it runs
                dims = None
            self._shapes.update(dict.fromkeys(op.outputs[1:]))
            if op.outputs:
                self._shapes[op.outputs[0]] = dims

    def _require(self, condition: Any, *, strictly: bool = True) -> None:
        if strictly:
            self.possible &= condition
        elif (self.preferred & condition).any():
            self.preferred &= condition

    def _operator(self, op: OpView) -> Dims | None:
        """Return the shape of the first output; exclude sizes that the operator refuses."""
        if not op.inputs:
            return None
        x = self._shapes.get(op.inputs[0])
        if x is None and op.inputs[0] in self._inputs and op.type in _IMAGES:
            x = self._image(op)
            self._shapes[op.inputs[0]] = x
        if op.type in SUMS:
            return self._sum(op)
        inferred = infer_shapes(op, [self._shapes.get(name) for name in op.inputs], differs=self._require_equal)
        y = inferred[len(op.inputs)] if op.outputs else None
        shape = _SHAPES.get(op.type)
        if shape is not None and x is not None:
            return shape(self, op, x, None if y is None else tuple(y))
        return None if y is None else tuple(y)

    def _require_equal(self, a: Dim, b: Dim) -> None:
        """Require that two sizes are equal; those that no image changes exclude none."""
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            self._require(np.asarray(a == b))

    def _image(self, op: OpView) -> Dims:
        sides: Dims = self._sides[:, None], self._sides[None, :]
        if self._slides_over_frames(op):
            self.has_videos, sides = True, (self._frames, *sides)
        return (self._batch, *sides, None) if _is_last(op) else (self._batch, None, *sides)

    def _slides_over_frames(self, op: OpView) -> bool:
        """Whether the window of an operator on an image has three dims: its kernels, or its weight, say so."""
        weight = self._shapes.get(op.inputs[1]) if op.type in CONVOLUTIONS else None
        return len(op.args.integers("kernels", default=()) or (weight or ())[2:]) == 3

    def _window(self, op: OpView, x: Dims, y: Dims | None) -> Dims | None:
        """Return the shape of the result, whose channels are known."""
        if y is None:
            return None
        spatial = x[1:-1] if _is_last(op) else x[2:]
        rank = len(spatial)
        if op.args.flag("global_pooling", default=False):
            sides: list[Dim] = [1] * rank
        else:
            kernels = window_argument(op.args, "kernel", rank)
            strides = window_argument(op.args, "stride", rank) or [1] * rank
            dilations = window_argument(op.args, "dilation", rank) or [1] * rank
            pads = window_argument(op.args, "pad", 2 * rank) or [0] * (2 * rank)
            adds = window_argument(op.args, "adj", rank) or [0] * rank
            legacy = op.args.integer("legacy_pad", default=0)
            sides = []
            for i, side in enumerate(spatial):
                reach = (kernels[i] - 1) * dilations[i] + 1
                both = (pads[i], pads[i + rank])
                if side is None:
                    sides.append(None)
                elif op.type in _TRANSPOSED:
                    sides.append((side - 1) * strides[i] + reach + adds[i] - sum(both))
                else:
                    sides.append(self._slide(side, reach, strides[i], both, legacy))
        return (x[0], *sides, y[-1]) if _is_last(op) else (*y[:2], *sides)

    def _slide(self, side: int | Array, reach: int, stride: int, pads: tuple[int, int], legacy: int) -> int | Array:
        """Return the number of positions of a window; exclude images that are smaller than the window."""
        if legacy == _SAME_PAD:
            return -(-side // stride)
        padded = side if legacy == _VALID else side + sum(pads)
        self._require(np.asarray(padded >= reach))
        if legacy != _CAFFE:
            return (padded - reach) // stride + 1
        count = -(-(padded - reach) // stride) + 1
        # The last window must start within the image or its first pad.
        return count - np.where((count - 1) * stride >= side + pads[0], 1, 0)

    def _sum(self, op: OpView) -> Dims | None:
        """Infer from operands of one shape; with other ranks, or with dims of 1, one is broadcast."""
        known = [dims for name in op.inputs if (dims := self._shapes.get(name)) is not None]
        if len(known) < len(op.inputs):
            return known[0] if known and len(op.inputs) == 2 and len(known[0]) > 2 else None
        first = max(known, key=len)
        for dims in known:
            if len(dims) != len(first) or dims is first:
                continue
            for a, b in zip(first, dims, strict=True):
                if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                    self._require((a == b) | (a == 1) | (b == 1))
        return first

    def _reshape(self, op: OpView, x: Dims, _: Dims | None) -> Dims | None:
        shape, total = op.args.integers("shape", default=()), _product(x)
        if not shape:
            return None
        result: list[Dim] = [x[i] if dim == 0 else dim for i, dim in enumerate(shape)]
        others = _product([dim for dim in result if not (isinstance(dim, int) and dim == -1)])
        if total is None or others is None:
            return tuple(None if isinstance(dim, int) and dim == -1 else dim for dim in result)
        if -1 not in shape:
            self._require(np.asarray(total == others))
            return tuple(result)
        index = shape.index(-1)
        some = np.asarray(others)
        self._require((some > 0) & (total % np.maximum(some, 1) == 0))
        result[index] = total // np.maximum(some, 1)
        if len(shape) == 2 and index == 0 and x[0] is not None:
            self._require(np.asarray(result[0] == x[0]), strictly=False)
        return tuple(result)

    def _resize(self, op: OpView, x: Dims, _: Dims | None) -> Dims:
        last = _is_last(op)
        scales = (op.args.number("height_scale", default=1.0), op.args.number("width_scale", default=1.0))
        sides = x[1:3] if last else x[2:4]
        scaled = tuple(
            None if side is None else np.floor(np.asarray(side) * scale).astype(np.int64)
            for side, scale in zip(sides, scales, strict=True)
        )
        return (x[0], *scaled, x[3]) if last else (*x[:2], *scaled)


# A table of this module, of what is computed from sizes: the methods of the class are private to it.
_SHAPES: Final[Mapping[str, Callable[[SideInference, OpView, Dims, Dims | None], Dims | None]]] = {
    **dict.fromkeys(CONVOLUTIONS | _POOLS, SideInference._window),  # noqa: SLF001 - as the comment says
    **dict.fromkeys(("Reshape", "Int8Reshape"), SideInference._reshape),  # noqa: SLF001 - the same
    **dict.fromkeys(_RESIZES, SideInference._resize),  # noqa: SLF001 - the same
}


def _is_last(op: OpView) -> bool:
    return op.args.text("order", default="NCHW") == "NHWC"


def _product(dims: Sequence[Dim]) -> Dim:
    result: int | Array = 1
    for dim in dims:
        if dim is None:
            return None
        result = result * dim
    return result
