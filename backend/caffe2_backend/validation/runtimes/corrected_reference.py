"""Operators of the reference evaluator that do not do what ONNX says.

As of onnx 1.23:

* MaxPool with pads counts them twice in the size of the result where ``ceil_mode`` is set: an image of 28 under a
  window of 3 with pads of 1 and stride 1 becomes 30, and not 28 as onnx's own shape inference has it.
* GatherElements goes through ``numpy.choose``, which takes no more than 64 choices: an axis of 65 fails.
* OneHot takes the depth as a scalar alone, and not as a tensor of one element and rank 1.
* Scan refuses sequences that run backwards, and those along other axes than the first.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any, Final

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_max_pool import MaxPool as PlainMaxPool
from onnx.reference.ops.op_one_hot import OneHot as PlainOneHot
from onnx.reference.ops.op_scan import Scan as PlainScan

from caffe2_bridge.netdef.parameters import Array

_WAYS: Final = frozenset(f"scan_{kind}_{what}" for kind in ("input", "output") for what in ("axes", "directions"))


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


class Scan(PlainScan):
    """Scan: the original one over sequences that are turned to run forwards along the first axis."""

    op_domain = ""

    def __init__(self, onnx_node: onnx.NodeProto, run_params: dict[str, Any]) -> None:
        given = {attribute.name: list(attribute.ints) for attribute in onnx_node.attribute if attribute.name in _WAYS}
        plain = onnx.NodeProto()
        plain.CopyFrom(onnx_node)
        del plain.attribute[:]
        plain.attribute.extend(attribute for attribute in onnx_node.attribute if attribute.name not in _WAYS)
        super().__init__(plain, run_params)  # type: ignore[no-untyped-call] # onnx's own
        self._inputs, self._outputs = (
            (given.get(f"scan_{kind}_axes"), given.get(f"scan_{kind}_directions")) for kind in ("input", "output")
        )

    def _run(self, *args: Array, **attributes: Any) -> tuple[Array, ...]:
        first = len(args) - self.num_scan_inputs  # type: ignore[attr-defined] # an attribute of the node
        turned = [_turned(value, i, *self._inputs, from_first=False) for i, value in enumerate(args[first:])]
        kept = {name: value for name, value in attributes.items() if name not in _WAYS}
        found = super()._run(*args[:first], *turned, **kept)  # type: ignore[no-untyped-call] # onnx's own
        rows = [_turned(value, i, *self._outputs, from_first=True) for i, value in enumerate(found[first:])]
        return (*found[:first], *rows)


def _turned(
    value: Array, index: int, axes: list[int] | None, directions: list[int] | None, *, from_first: bool
) -> Array:
    """A sequence with its axis moved to or from the first one, and reversed if it runs backwards."""
    axis = axes[index] if axes else 0
    if directions and directions[index]:
        value = np.flip(value, 0 if from_first else axis)
    return np.moveaxis(value, 0, axis) if from_first else np.moveaxis(value, axis, 0)


OPERATORS: Final = (GatherElements, MaxPool, OneHot, Scan)
