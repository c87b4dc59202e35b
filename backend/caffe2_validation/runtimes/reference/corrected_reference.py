"""Operators of the reference evaluator that do not do what ONNX says.

As of onnx 1.23:

* MaxPool with pads counts them twice in the size of the result where ``ceil_mode`` is set: an image of 28 under a
  window of 3 with pads of 1 and stride 1 becomes 30, and not 28 as onnx's own shape inference has it.
* AveragePool computes window by window in Python: 16 million elements take hours.
* GatherElements goes through ``numpy.choose``, which takes no more than 64 choices: an axis of 65 fails.
* LRN normalizes as many channels as there are images in the batch.
* OneHot takes the depth as a scalar alone, and not as a tensor of one element and rank 1.
* Scan refuses sequences that run backwards, and those along other axes than the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import ceil, floor
from typing import Any, Final

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_average_pool import AveragePool_19 as PlainAveragePool
from onnx.reference.ops.op_max_pool import MaxPool as PlainMaxPool
from onnx.reference.ops.op_one_hot import OneHot as PlainOneHot
from onnx.reference.ops.op_scan import Scan as PlainScan

from caffe2_bridge.netdef.parameters import Array
from caffe2_validation.runtimes.reference.corrected_convolution import ConvTranspose, Pad
from caffe2_validation.runtimes.reference.corrected_loop import Loop

_WAYS: Final = frozenset(f"scan_{kind}_{what}" for kind in ("input", "output") for what in ("axes", "directions"))


class GatherElements(OpRun):
    """GatherElements."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (np.take_along_axis(self._cut(data, indices, axis), indices, axis=axis),)

    @staticmethod
    def _cut(data: Array, indices: Array, axis: int) -> Array:
        """Return the part of ``data`` that ``indices`` covers, which may be smaller along axes not gathered."""
        axis %= data.ndim
        return data[tuple(slice(None) if i == axis else slice(size) for i, size in enumerate(indices.shape))]


class LRN(OpRun):
    """LRN."""

    op_domain = ""

    def _run(self, x: Array, alpha: float, beta: float, bias: float, size: int) -> tuple[Array]:
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (x.ndim - 2)])
        total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
        return ((x / (bias + alpha / size * total) ** beta).astype(x.dtype),)


class OneHot(PlainOneHot):
    """OneHot."""

    op_domain = ""

    def _run(self, indices: Array, depth: Array, values: Array, axis: int | None = None) -> tuple[Array]:
        last = -1 if axis is None else axis
        found = super()._run(indices, np.asarray(depth).reshape(()), values, axis=last)  # type: ignore[no-untyped-call] # onnx's own
        return (found[0],)


@dataclass(frozen=True)
class _Windows:
    """The windows of a pool along each spatial axis, with pads that are given.

    Attributes:
        pads: before and behind each axis, as ``numpy.pad`` takes them; behind as far as the last window reaches.
        taps: by axis, for each element of a window its indices in the padded image, one for each window.
        given: by axis, the first index that the given pads and the image cover, that of the image, that of the pads
            behind, and the one behind those.
    """

    pads: list[tuple[int, int]]
    taps: list[list[Array]]
    given: list[tuple[int, int, int, int]]

    @classmethod
    def of(cls, x: Array, attributes: Mapping[str, Any]) -> _Windows:
        rank = x.ndim - 2
        kernel = attributes["kernel_shape"]
        strides = attributes.get("strides") or [1] * rank
        dilations = attributes.get("dilations") or [1] * rank
        given = attributes.get("pads") or [0] * (2 * rank)
        rounded = ceil if attributes.get("ceil_mode") else floor
        found = cls([], [], [])
        for axis in range(rank):
            size, head, tail = x.shape[axis + 2], given[axis], given[axis + rank]
            reach = dilations[axis] * (kernel[axis] - 1) + 1
            count = max(rounded((size + head + tail - reach) / strides[axis]) + 1, 0)
            if attributes.get("ceil_mode") and (count - 1) * strides[axis] >= size + head:
                count -= 1  # no window starts in the pads behind
            starts = np.arange(count) * strides[axis]
            found.taps.append([starts + place * dilations[axis] for place in range(kernel[axis])])
            found.pads.append((head, max(tail, (count - 1) * strides[axis] + reach - size - head)))
            found.given.append((0, head, head + size, head + size + tail))
        return found

    def elements(self, x: Array, fill: Any) -> Iterator[Array]:
        """Yield for each element of a window that of all windows; ``fill`` is in the pads."""
        padded = np.pad(x, [(0, 0), (0, 0), *self.pads], constant_values=fill)
        for taps in product(*self.taps):
            index: Any = (slice(None), slice(None), *np.ix_(*taps))
            yield padded[index]

    def counts(self, *, with_pads: bool) -> Array:
        """Return how many elements of each window are in the image, or in the given pads too."""
        total = np.ones((), np.int64)
        for taps, (first, begin, end, last) in zip(self.taps, self.given, strict=True):
            low, high = (first, last) if with_pads else (begin, end)
            inside = sum((tap >= low) & (tap < high) for tap in taps)
            total = total[..., None] * np.asarray(inside, np.int64)
        return total


def _is_explicit(attributes: Mapping[str, Any]) -> bool:
    return attributes.get("auto_pad") in (None, "NOTSET")


class MaxPool(PlainMaxPool):
    """MaxPool; that with indices as a second output, or whose pads follow from the sizes, is left to the original."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # by name, all of them
        if len(self.output) > 1 or not _is_explicit(attributes):
            return tuple(super()._run(x, **attributes))  # type: ignore[no-untyped-call] # onnx's own
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return (reduce(np.maximum, _Windows.of(x, attributes).elements(x, lowest)),)


class AveragePool(PlainAveragePool):
    """AveragePool; that whose pads follow from the sizes is left to the original."""

    op_domain = ""

    def _run(self, x: Array, **attributes: Any) -> tuple[Array, ...]:  # type: ignore[override] # by name, all of them
        if not _is_explicit(attributes):
            return tuple(super()._run(x, **attributes))  # type: ignore[no-untyped-call] # onnx's own
        windows = _Windows.of(x, attributes)
        total = reduce(np.add, windows.elements(x, 0))
        counts = windows.counts(with_pads=attributes.get("count_include_pad") == 1)
        return ((total / counts.astype(total.dtype)).astype(x.dtype),)


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
    """Return a sequence with its axis moved to or from the first one, and reversed if it runs backwards."""
    axis = axes[index] if axes else 0
    if directions and directions[index]:
        value = np.flip(value, 0 if from_first else axis)
    return np.moveaxis(value, 0, axis) if from_first else np.moveaxis(value, axis, 0)


OPERATORS: Final = (AveragePool, ConvTranspose, GatherElements, LRN, Loop, MaxPool, OneHot, Pad, Scan)
