"""Pools, convolutions, normalizations and resizing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import IMAGE, LAST, X234, Expected, F, Spelling, numbers


def spellings() -> Iterator[Spelling]:
    """Yield pools, convolutions, normalizations and resizing."""
    feed, one = {"x": IMAGE}, "float[1,2,4,5] x"
    kernel = "kernel_shape = [2, 3], strides = [2, 1]"
    padded = f"{kernel}, pads = [1, 1, 0, 1]"
    yield Spelling(1, LAST, one, f"y = MaxPool<{padded}>(x)", feed)
    yield Spelling(1, LAST, one, f"y = AveragePool<{padded}>(x)", feed, expected=_averaged)
    yield Spelling(7, LAST, one, f"y = AveragePool<{padded}, count_include_pad = 1>(x)", feed)
    yield Spelling(8, LAST, one, f"y, i = MaxPool<{padded}, storage_order = 1>(x)", feed)
    for name in ("MaxPool", "AveragePool"):
        yield Spelling(10, LAST, one, f"y = {name}<kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1>(x)", feed)
    yield Spelling(10, LAST, one, "y = MaxPool<kernel_shape = [2, 2], dilations = [2, 1]>(x)", feed)
    yield Spelling(19, LAST, one, "y = AveragePool<kernel_shape = [2, 2], dilations = [2, 1]>(x)", feed)

    def lp(x: Any) -> Any:
        return np.stack([sum(abs(x[:, :, i : i + 3, j : j + 4]) ** 3 for i in (0, 1) for j in (0, 1)) ** F(1 / 3)])[0]

    yield Spelling(1, 1, one, "y = LpPool<kernel_shape = [2, 2], p = 3.0>(x)", feed, expected=lp)
    yield Spelling(2, LAST, one, "y = LpPool<kernel_shape = [2, 2], p = 3>(x)", feed, expected=lp)

    def global_lp(x: Any) -> Any:
        return (abs(x) ** 3).sum((2, 3), keepdims=True) ** F(1 / 3)

    yield Spelling(1, 1, one, "y = GlobalLpPool<p = 3.0>(x)", feed, expected=global_lp)
    yield Spelling(2, LAST, one, "y = GlobalLpPool<p = 3>(x)", feed, expected=global_lp)
    filters = {"x": IMAGE, "w": numbers(4, 1, 2, 2, seed=1), "b": numbers(4, seed=2)}
    yield Spelling(
        1, LAST, f"{one}, float[4,1,2,2] w, float[4] b", "y = Conv<group = 2, pads = [1, 0, 0, 1]>(x, w, b)", filters
    )
    mirrored = {"x": IMAGE, "w": numbers(2, 3, 2, 2, seed=1)}
    yield Spelling(1, LAST, f"{one}, float[2,3,2,2] w", "y = ConvTranspose<strides = [2, 2]>(x, w)", mirrored)
    statistics = {
        "s": numbers(2, seed=1),
        "b": numbers(2, seed=2),
        "m": numbers(2, seed=3),
        "v": abs(numbers(2, seed=4)),
    }
    inputs = f"{one}, float[2] s, float[2] b, float[2] m, float[2] v"

    def normalized(x: Any, s: Any, b: Any, m: Any, v: Any) -> Any:
        s, b, m, v = (a.reshape(1, 2, 1, 1) for a in (s, b, m, v))
        return s * (x - m) / np.sqrt(v + F(1e-5)) + b

    for attributes, first, last in (
        ("<is_test = 1>", 1, 6), ("<consumed_inputs = [0, 0, 0, 1, 1], is_test = 1>", 1, 5), ("<spatial = 1>", 7, 8),
        ("<is_test = 1, spatial = 1, momentum = 0.5>", 1, 6), ("", 7, LAST),
    ):  # fmt: skip
        node = f"y = BatchNormalization{attributes}(x, s, b, m, v)"
        yield Spelling(first, last, inputs, node, {"x": IMAGE, **statistics}, expected=normalized)
    each = {name: numbers(2, 4, 5, seed=n) for n, name in enumerate("sbm", 1)} | {"v": abs(numbers(2, 4, 5, seed=4))}
    inputs = f"{one}, float[2,4,5] s, float[2,4,5] b, float[2,4,5] m, float[2,4,5] v"
    for attributes, first, last in (("<is_test = 1, spatial = 0>", 1, 6), ("<spatial = 0>", 7, 8)):
        node = f"y = BatchNormalization{attributes}(x, s, b, m, v)"
        yield Spelling(first, last, inputs, node, {"x": IMAGE, **each},
                       expected=lambda x, s, b, m, v: s * (x - m) / np.sqrt(v + F(1e-5)) + b)  # fmt: skip
    scales = {"x": IMAGE, "s": statistics["s"], "b": statistics["b"]}
    for attributes, last in (("", 22), ("<consumed_inputs = [0]>", 5)):
        node = f"y = InstanceNormalization{attributes}(x, s, b)"
        yield Spelling(1, last, f"{one}, float[2] s, float[2] b", node, scales,
                       expected=lambda x, s, b: normalized(x, s, b, x.mean((0, 2, 3)), x.var((0, 2, 3))))  # fmt: skip
    yield Spelling(9, LAST, one, "y = MeanVarianceNormalization<axes = [0, 2, 3]>(x)", feed)
    yield Spelling(1, LAST, one, "y = LRN<size = 3>(x)", feed)
    yield Spelling(1, LAST, "float[2,3,4] x", "y = LpNormalization<axis = 1>(x)", {"x": X234})
    yield from _resized()
    deep = {"x": numbers(1, 8, 2, 3)}
    yield Spelling(1, LAST, "float[1,8,2,3] x", "y = DepthToSpace<blocksize = 2>(x)", deep)
    yield Spelling(11, LAST, "float[1,8,2,3] x", 'y = DepthToSpace<blocksize = 2, mode = "CRD">(x)', deep)
    yield Spelling(1, LAST, "float[1,2,2,4] x", "y = SpaceToDepth<blocksize = 2>(x)", {"x": numbers(1, 2, 2, 4)})
    regions = {"x": IMAGE, "r": np.array([[0, 0, 3, 3], [1, 1, 4, 2]], F), "n": np.zeros(2, np.int64)}
    inputs = f"{one}, float[2,4] r, int64[2] n"
    yield Spelling(
        10, 15, inputs, "y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, n)", regions
    )
    yield Spelling(
        16, 21, inputs, "y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2>(x, r, n)", regions
    )
    grid = {"x": IMAGE, "q": np.random.default_rng(0).uniform(-1.2, 1.2, (1, 3, 2, 2)).astype(F)}
    for old, new in (("bilinear", "linear"), ("bicubic", "cubic"), ("nearest", "nearest")):
        for first, last, mode in ((16, 19, old), (20, LAST, new)):
            yield Spelling(first, last, f"{one}, float[1,3,2,2] q", f'y = GridSample<mode = "{mode}">(x, q)', grid)


def _averaged(x: Any) -> Any:
    """Return means over windows of 2 x 3 at every second row, without what pads them above, left and right."""
    wide = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 1)), constant_values=np.nan)
    rows, columns = range(0, wide.shape[2] - 1, 2), range(wide.shape[3] - 2)
    means = [[np.nanmean(wide[:, :, i : i + 2, j : j + 3], (2, 3)) for j in columns] for i in rows]
    return np.moveaxis(np.array(means, F), (0, 1), (2, 3))


def _resized() -> Iterator[Spelling]:
    """Yield Upsample, then Resize, whose coordinates are asymmetric before opset 11."""
    one, feed = "float[1,2,4,5] x", {"x": IMAGE}
    for mode in ("nearest", "linear"):
        old = "bilinear" if mode == "linear" else mode
        yield Spelling(1, 6, one, f'y = Upsample<height_scale = 2.0, width_scale = 3.0, mode = "{old}">(x)',
                       feed, expected=_upsampled(mode))  # fmt: skip
        yield Spelling(
            7,
            8,
            one,
            f'y = Upsample<mode = "{mode}", scales = [1.0, 1.0, 2.0, 3.0]>(x)',
            feed,
            expected=_upsampled(mode),
        )
        head = "<float[4] s = {1, 1, 2, 3}>"
        yield Spelling(9, 9, one, f'y = Upsample<mode = "{mode}">(x, s)', feed, head, _upsampled(mode))
        yield Spelling(10, 10, one, f'y = Resize<mode = "{mode}">(x, s)', feed, head, _upsampled(mode))
        yield Spelling(13, LAST, one, f'y = Resize<mode = "{mode}">(x, , s)', feed, head)
        region = "<float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 3}>"
        yield Spelling(11, 12, one, f'y = Resize<mode = "{mode}">(x, r, s)', feed, region)
        attributes = f'mode = "{mode}", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"'
        yield Spelling(13, LAST, one, f"y = Resize<{attributes}>(x, , s)",
                       feed, head, _upsampled(mode))  # fmt: skip
    for scales, rows, columns in (("0.5, 0.6", [0, 2], [0, 2, 4]), ("2, 0.6", [0, 0, 1, 1, 2, 2, 3, 3], [0, 2, 4])):
        yield Spelling(10, 10, one, "y = Resize(x, s)", feed, f"<float[4] s = {{1, 1, {scales}}}>",
                       lambda x, r=rows, c=columns: x[:, :, r][..., c])  # fmt: skip


def _upsampled(mode: str) -> Expected:
    def positions(size: int, scale: int) -> tuple[Any, Any, Any]:
        at = np.arange(size * scale) / F(scale)
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, size - 1), (at - low).astype(F)

    def upsampled(x: Any) -> Any:
        for axis, scale in ((2, 2), (3, 3)):
            low, high, share = positions(x.shape[axis], scale)
            share = share.reshape([-1 if i == axis else 1 for i in range(4)])
            x = x.take(low, axis) if mode == "nearest" else x.take(low, axis) * (1 - share) + x.take(high, axis) * share
        return x

    return upsampled
