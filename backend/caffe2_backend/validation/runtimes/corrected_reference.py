"""Operators of the reference evaluator that do not do what ONNX says.

As of onnx 1.23:

* MaxPool with pads counts them twice in the size of the result where ``ceil_mode`` is set: an image of 28 under a
  window of 3 with pads of 1 and stride 1 becomes 30, and not 28 as onnx's own shape inference has it.
* GatherElements goes through ``numpy.choose``, which takes no more than 64 choices: an axis of 65 fails.
* OneHot takes the depth as a scalar alone, and not as a tensor of one element and rank 1.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_max_pool import MaxPool as PlainMaxPool
from onnx.reference.ops.op_one_hot import OneHot as PlainOneHot

from caffe2_bridge.netdef.parameters import Array


class GatherElements(OpRun):
    """GatherElements."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (np.take_along_axis(self._cut(data, indices, axis), indices, axis=axis),)

    @staticmethod
    def _cut(data: Array, indices: Array, axis: int) -> Array:
        """The part of ``data`` that ``indices`` covers: along other axes than the one gathered it may be smaller."""
        axis %= data.ndim
        return data[tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))]


class OneHot(PlainOneHot):
    """OneHot."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int | None = None) -> tuple[Array]:
        last = -1 if axis is None else axis
        found = super()._run(indices, np.asarray(depth).reshape(()), values, axis=last)  # type: ignore[no-untyped-call] # onnx's own
        return (found[0],)


class MaxPool(PlainMaxPool):
    """MaxPool; that with indices as a second output, or whose pads follow from the sizes, is left to the original."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # by name, all of them
        if len(self.output) > 1 or attributes.get("auto_pad") not in (None, "NOTSET"):
            return tuple(super()._run(x, **attributes))  # type: ignore[no-untyped-call] # onnx's own
        rank = x.ndim - 2
        kernel = attributes["kernel_shape"]
        strides = attributes.get("strides") or [1] * rank
        dilations = attributes.get("dilations") or [1] * rank
        pads = attributes.get("pads") or [0] * (2 * rank)
        rounded = ceil if attributes.get("ceil_mode") else floor
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        whole: list[tuple[int, int]] = [(0, 0), (0, 0)]
        counts = []
        for axis in range(rank):
            size, head, tail = x.shape[axis + 2], pads[axis], pads[axis + rank]
            reach = dilations[axis] * (kernel[axis] - 1) + 1
            count = max(rounded((size + head + tail - reach) / strides[axis]) + 1, 0)
            if attributes.get("ceil_mode") and (count - 1) * strides[axis] >= size + head:
                count -= 1  # no window starts in the pads behind
            counts.append(count)
            whole.append((head, max(tail, (count - 1) * strides[axis] + reach - size - head)))
        padded = np.pad(x, whole, constant_values=lowest)
        result = np.full((*x.shape[:2], *counts), lowest, x.dtype)
        for place in np.ndindex(*kernel):
            cut = tuple(
                slice(p * d, p * d + (n - 1) * s + 1, s) if n else slice(0)
                for p, d, s, n in zip(place, dilations, strides, counts, strict=True)
            )
            np.maximum(result, padded[(..., *cut)], out=result)
        return (result,)
