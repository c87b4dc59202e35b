"""Resize images as OpenCV does with INTER_AREA, which Caffe2's ImageInput uses.

Source: opencv/modules/imgproc/src/resize.cpp, ``cv::resize`` with INTER_AREA. An image that shrinks in both directions
is averaged: each new pixel is the mean of the old ones that it covers, those at its edges by the part that is covered.
Otherwise both directions are interpolated linearly, where the weight of a neighbor is the part of the new pixel that
reaches into it; this is done in integers with 11 bits of fraction.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from caffe2_backend.runtime.values import Array

_BITS: Final = 11
_ONE: Final = 1 << _BITS


def resize(image: Array, height: int, width: int) -> Array:
    """Resize an image.

    Args:
        image: uint8, shape [rows, columns, channels].
        height: the new number of rows.
        width: the new number of columns.

    Returns:
        uint8, shape [height, width, channels].
    """
    rows, columns = image.shape[:2]
    if (rows, columns) == (height, width):
        return image
    if rows >= height and columns >= width:
        return _shrink(image, height, width)
    return _interpolate(image, height, width)


def _shrink(image: Array, height: int, width: int) -> Array:
    """Average the pixels that each new one covers; halves are rounded to even, as cvRound does."""
    rows, columns = image.shape[:2]
    if rows % height == 0 and columns % width == 0:
        blocks = image.reshape(height, rows // height, width, columns // width, -1)
        sums = blocks.sum(axis=(1, 3), dtype=np.int64)
        area = (rows // height) * (columns // width)
        if (rows // height, columns // width) == (2, 2):  # OpenCV has integers for this
            quarters: Array = (sums + 2) >> 2
            return quarters.astype(np.uint8)
        return _rounded(sums.astype(np.float32) * np.float32(1 / area))
    across = np.einsum("xc,rcd->rxd", _coverage(columns, width), image.astype(np.float32))
    return _rounded(np.einsum("yr,rxd->yxd", _coverage(rows, height), across))


def _coverage(old: int, new: int) -> Array:
    """Return the weight of each old pixel in each new one: shape [new, old], float32; the rows add up to 1."""
    scale = old / new
    edges = np.arange(old)
    out = np.empty((new, old), np.float32)
    for i in range(new):
        begin, end = i * scale, min((i + 1) * scale, old)
        covered = np.clip(np.minimum(edges + 1, end) - np.maximum(edges, begin), 0, None)
        covered[covered <= 1e-3] = 0  # OpenCV leaves out what is covered less
        out[i] = covered / min(scale, old - begin)
    return out


def _interpolate(image: Array, height: int, width: int) -> Array:
    rows, columns = image.shape[:2]
    left, right = _neighbors(columns, width)
    top, bottom = _neighbors(rows, height)
    pixels = image.astype(np.int64)
    across = pixels[:, left[0]] * left[1][None, :, None] + pixels[:, right[0]] * right[1][None, :, None]
    # The vertical pass of OpenCV: it drops 4 bits before it multiplies, 16 bits after it, and rounds the last two.
    upper: Array = (top[1][:, None, None] * (across[top[0]] >> 4)) >> 16
    lower: Array = (bottom[1][:, None, None] * (across[bottom[0]] >> 4)) >> 16
    rounded: Array = (upper + lower + 2) >> 2
    return np.clip(rounded, 0, 255).astype(np.uint8)


def _neighbors(old: int, new: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return index and weight (of 11 bits) of the two old pixels that each new one is interpolated between."""
    scale = old / new
    index = np.floor(np.arange(new) * scale).astype(np.int64)
    fraction = (np.arange(new) + 1) - (index + 1) * (new / old)
    fraction = np.where(fraction <= 0, 0, fraction - np.floor(fraction)).astype(np.float32)
    fraction = np.where(index >= old - 1, np.float32(0), fraction)
    index = np.minimum(index, old - 1)
    weight = np.rint(fraction * _ONE).astype(np.int64)
    return (index, _ONE - weight), (np.minimum(index + 1, old - 1), weight)


def _rounded(values: Array) -> Array:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
