"""Pad and ConvTranspose of the reference evaluator.

As of onnx 1.23, its Pad refuses negative pads, which remove elements; its ConvTranspose adds up element by element in
Python, 16 million of which take minutes, and takes the weights of other groups where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx.reference.ops.op_conv_transpose import ConvTranspose as PlainConvTranspose
from onnx.reference.ops.op_pad import Pad_18 as PlainPad

from caffe2_bridge.netdef.parameters import Array


class Pad(PlainPad):
    """Pad: of negative pads, elements are removed before others are added."""

    op_domain = ""

    def _run(self, data: Array, pads: Any = None, *operands: Any, **attributes: Any) -> tuple[Array, ...]:
        pads = np.asarray(attributes.pop("paddings", None) if pads is None else pads, np.int64)
        value, axes = (*operands, None, None)[:2]
        if "value" in attributes:  # of earlier opsets
            value = attributes.pop("value")
        chosen = range(data.ndim) if axes is None else [int(axis) % data.ndim for axis in axes]
        cut = [slice(None)] * data.ndim
        for axis, head, tail in zip(chosen, *pads.reshape(2, -1).tolist(), strict=True):
            cut[axis] = slice(max(-head, 0), max(data.shape[axis] - max(-tail, 0), 0))
        added, kept = np.maximum(pads, 0), data[tuple(cut)]
        if not added.any():
            return (kept,)
        mode = attributes.get("mode") or "constant"
        return tuple(super()._run(kept, added, value, axes, mode=mode))  # type: ignore[no-untyped-call] # onnx's own


class ConvTranspose(PlainConvTranspose):
    """ConvTranspose: each element of the window adds a product of matrices to the places that it reaches."""

    op_domain = ""

    def _run(self, x: Array, w: Array, b: Array | None = None, **attributes: Any) -> tuple[Array]:  # type: ignore[override] # by name, all of them
        sizes, kernel, rank = x.shape[2:], w.shape[2:], x.ndim - 2
        strides, dilations = (attributes.get(name) or [1] * rank for name in ("strides", "dilations"))
        extra = attributes.get("output_padding") or [0] * rank
        groups, batch = attributes.get("group") or 1, x.shape[0]
        spans = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)]
        wide = np.promote_types(x.dtype, np.float32)
        rows = x.reshape(batch, groups, x.shape[1] // groups, prod(sizes)).astype(wide)
        weights = w.reshape(groups, x.shape[1] // groups, -1, *kernel).astype(wide)
        total = np.zeros((batch, w.shape[1] * groups, *spans), wide)
        for tap in np.ndindex(*kernel):
            product = weights[(..., *tap)].swapaxes(1, 2) @ rows
            first = [t * d for t, d in zip(tap, dilations, strict=True)]
            reached: Any = tuple(
                slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, sizes, strides, strict=True)
            )
            total[..., *reached] += product.reshape(batch, w.shape[1] * groups, *sizes)
        heads, tails = _trims(attributes, sizes, strides, [s + e for s, e in zip(spans, extra, strict=True)])
        behind = [e - t for e, t in zip(extra, tails, strict=True)]
        found = _resized(total, [-head for head in heads], behind)
        if b is not None:
            found = found + b.reshape(-1, *[1] * rank)
        return (found.astype(x.dtype),)


def _trims(
    attributes: Mapping[str, Any], sizes: Sequence[int], strides: Sequence[int], spans: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return what is cut off before and behind each axis: the pads, or what yields the sizes that are asked for."""
    way, wanted, rank = attributes.get("auto_pad") or "NOTSET", attributes.get("output_shape"), len(sizes)
    if not wanted and not way.startswith("SAME"):
        pads = list(attributes.get("pads") or [0] * (2 * rank)) if way == "NOTSET" else [0] * (2 * rank)
        return pads[:rank], pads[rank:]
    results = list(wanted)[-rank:] if wanted else [n * s for n, s in zip(sizes, strides, strict=True)]
    cuts = [span - size for span, size in zip(spans, results, strict=True)]
    halves = [cut // 2 for cut in cuts]
    rest = [cut - half for cut, half in zip(cuts, halves, strict=True)]
    return (halves, rest) if way == "SAME_UPPER" else (rest, halves)


def _resized(x: Array, heads: Sequence[int], tails: Sequence[int]) -> Array:
    """Add zeros before and behind the last axes, or remove elements where the numbers are negative."""
    for axis, (head, tail) in enumerate(zip(heads, tails, strict=True), x.ndim - len(heads)):
        kept = x.take(range(max(-head, 0), x.shape[axis] - max(-tail, 0)), axis)
        pads = [(0, 0)] * x.ndim
        pads[axis] = (max(head, 0), max(tail, 0))
        x = np.pad(kept, pads)
    return x
