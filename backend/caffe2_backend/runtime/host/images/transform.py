"""Scale, crop, mirror and normalize images as Caffe2's ImageInput; what is random is drawn from a generator.

Source: caffe2/image/image_input_op.h.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from caffe2_backend.runtime.host.images.image_records import Item
from caffe2_backend.runtime.host.images.resize import resize
from caffe2_backend.runtime.host.images.settings import Jitter, Settings
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError

# The principal components of the colors red, green and blue of ImageNet (Krizhevsky et al., 2012), times 255.
_COMPONENTS: Final = np.array(
    [[-144.7125, 183.396, 102.2295], [-148.104, -1.1475, -207.57], [-148.818, -177.174, 107.1765]], np.float32
)
_VARIANCES: Final = np.array([0.2175, 0.0188, 0.0045], np.float32)
_GRAY: Final = np.array([0.114, 0.587, 0.299], np.float32)  # of blue, green and red
_TRIES: Final = 10


def transform(item: Item, settings: Settings, random: np.random.Generator) -> Array:
    """Make the output for an image: [crop, crop, channels], uint8 if the output is raw and else float32.

    Raises RunError if the image is smaller than the crop.
    """
    image = item.image
    if item.box is not None and item.box.is_within(*image.shape[:2]):
        box = item.box
        image = image[box.top : box.top + box.height, box.left : box.left + box.width]
    cut = _random_sized_crop(image, settings.crop, random) if settings.inception and not settings.is_test else None
    image = _scaled(image, settings, random) if cut is None else cut
    image = _cropped(image, settings, random)
    # Caffe2 mirrors at a test, too, where a GPU transforms the images.
    if settings.mirror and (settings.is_raw or settings.is_planar or not settings.is_test) and random.random() < 0.5:
        image = image[:, ::-1]
    if settings.is_raw:
        return image
    pixels = image.astype(np.float32)
    if settings.color and not settings.is_test and not settings.is_planar:
        if settings.jitter is not None:
            pixels = _jittered(pixels, settings.jitter, random)
        if settings.lighting:
            shift = _COMPONENTS @ (_VARIANCES * random.normal(0, settings.lighting, 3).astype(np.float32))
            pixels = pixels + shift[::-1]
    return normalized(pixels, settings)


def normalized(pixels: Array, settings: Settings) -> Array:
    """Subtract the mean and divide by the standard deviation."""
    channels = settings.channels
    out: Array = (pixels - settings.mean[:channels]) * (np.float32(1) / settings.std[:channels])
    return out


def _scaled(image: Array, settings: Settings, random: np.random.Generator) -> Array:
    rows, columns = image.shape[:2]
    scale = settings.scale
    if settings.random_scale is not None:
        scale = int(random.integers(settings.random_scale[0], settings.random_scale[1] + 1))
    height = width = scale
    if not settings.warp and rows > columns:
        height = int(np.float32(rows) * np.float32(scale) / np.float32(columns))
    elif not settings.warp:
        width = int(np.float32(columns) * np.float32(scale) / np.float32(rows))
    if not settings.is_minimum or height > rows or width > columns:
        return resize(image, height, width)
    return image


def _cropped(image: Array, settings: Settings, random: np.random.Generator) -> Array:
    crop = settings.crop
    spare = [size - crop for size in image.shape[:2]]
    if min(spare) < 0:
        raise RunError(f"an image of {image.shape[0]} x {image.shape[1]} pixels is smaller than the crop ({crop})")
    top, left = (gap // 2 if settings.is_test else int(random.integers(gap + 1)) for gap in spare)
    return image[top : top + crop, left : left + crop]


def _random_sized_crop(image: Array, crop: int, random: np.random.Generator) -> Array | None:
    """Return a part of 8 % to 100 % of the area and of an aspect ratio of 3/4 to 4/3, scaled; None if none is found."""
    rows, columns = image.shape[:2]
    for _ in range(_TRIES):
        area = math.ceil(random.uniform(0.08, 1.0) * rows * columns)
        ratio = random.uniform(3 / 4, 4 / 3)
        height, width = math.isqrt(int(area / ratio)), math.isqrt(int(area * ratio))
        if 1 <= height <= rows and 1 <= width <= columns:
            top, left = int(random.integers(rows - height + 1)), int(random.integers(columns - width + 1))
            return resize(image[top : top + height, left : left + width], crop, crop)
    return None


def _jittered(pixels: Array, jitter: Jitter, random: np.random.Generator) -> Array:
    """Change saturation, brightness and contrast, in random order."""
    for kind in random.permutation(3):
        limit = (jitter.saturation, jitter.brightness, jitter.contrast)[kind]
        factor = np.float32(1 + random.uniform(-limit, limit))
        gray = (pixels @ _GRAY)[..., None]
        around = (gray, np.float32(0), gray.mean())[kind]
        pixels = pixels * factor + around * (1 - factor)
    return pixels
