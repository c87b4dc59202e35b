"""The arguments of ImageInput."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from caffe2_backend.runtime.devices.device_names import GPU_TYPES
from caffe2_backend.runtime.host.family import HostOp
from caffe2_backend.runtime.values import Array

_DATUM_OUTPUTS = 2


class LabelType(IntEnum):
    """What the labels are: Caffe2's numbers."""

    SINGLE = 0
    SPARSE = 1
    DENSE = 2
    WEIGHTED_SPARSE = 3
    SINGLE_WEIGHTED = 4
    EMBEDDING = 5

    @property
    def is_single(self) -> bool:
        """Whether there is one label for an image."""
        return self in (LabelType.SINGLE, LabelType.SINGLE_WEIGHTED)


@dataclass(frozen=True)
class Box:
    """A part of an image."""

    top: int
    left: int
    height: int
    width: int

    def is_within(self, rows: int, columns: int) -> bool:
        """Whether the part lies in an image of a size."""
        return self.top + self.height <= rows and self.left + self.width <= columns


@dataclass(frozen=True)
class Jitter:
    """How far the colors of images change at random: each factor lies within 1 - x and 1 + x."""

    saturation: float
    brightness: float
    contrast: float


@dataclass(frozen=True)
class Settings:
    """The arguments of ImageInput; see Caffe2's documentation of the operator.

    Attributes:
        output_sizes: the number of elements of each further output.
        box: the part of the image that is used; None for all of it.
        scale: the length of the shorter side; ``is_minimum``: longer ones stay.
        random_scale: the first and the last value that ``scale`` is drawn from; None if it is not drawn.
        warp: whether both sides are scaled to ``scale``.
        mean, std: of each channel, float32.
        is_raw: whether the output is the cropped images, uint8, to be transformed on a GPU.
        is_planar: whether the output is NCHW, as that of a GPU's transform, of the element type ``output_dtype``.
    """

    batch_size: int
    label_type: LabelType
    num_labels: int
    color: bool
    output_sizes: tuple[int, ...]
    box: Box | None
    scale: int
    is_minimum: bool
    random_scale: tuple[int, int] | None
    warp: bool
    crop: int
    mirror: bool
    is_test: bool
    inception: bool
    jitter: Jitter | None
    lighting: float
    mean: Array
    std: Array
    is_datum: bool
    is_raw: bool
    is_planar: bool
    output_dtype: type[np.float32 | np.float16]
    threads: int
    max_error_ratio: float

    @property
    def channels(self) -> int:
        """The number of channels."""
        return 3 if self.color else 1

    @property
    def first_output(self) -> int:
        """The index of the tensor in a record that is the first further output."""
        return 3 if self.label_type in (LabelType.WEIGHTED_SPARSE, LabelType.SINGLE_WEIGHTED) else 2


def read_settings(op: HostOp) -> Settings:
    """Read the arguments of an operator. Raises RunError if they contradict each other."""
    args = op.args
    scale, minsize, random_scale = _scales(op)
    sizes = args.integers("output_sizes", default=()) or (1,) * (len(op.outputs) - 2)
    mean, std = (_per_channel(op, name, default) for name, default in (("mean", 0.0), ("std", 1.0)))
    label_type = args.integer("label_type", default=0)
    gpu_transform = _truth(op, "use_gpu_transform")
    on_gpu = op.view.proto.device_option.device_type in GPU_TYPES
    half = args.text("output_type", default="FLOAT").upper() == "FLOAT16"
    if not 0 <= label_type <= max(LabelType):
        raise op.error(f"label_type must be from 0 to {max(LabelType)}, not {label_type}")
    jitter = Jitter(*(args.number(f"img_{name}", default=0.4) for name in ("saturation", "brightness", "contrast")))
    settings = Settings(
        batch_size=args.integer("batch_size", default=0),
        label_type=LabelType(label_type),
        num_labels=args.integer("num_labels", default=0),
        color=_truth(op, "color", default=True),
        output_sizes=tuple(sizes),
        box=_default_box(op),
        scale=scale if scale > 0 else minsize,
        is_minimum=scale <= 0,
        random_scale=random_scale,
        warp=_truth(op, "warp"),
        crop=args.integer("crop", default=-1),
        mirror=_truth(op, "mirror"),
        is_test=_truth(op, "is_test"),
        inception=args.integer("scale_jitter_type", default=0) == 1,
        jitter=jitter if _truth(op, "color_jitter") else None,
        lighting=args.number("color_lighting_std", default=0.1) if _truth(op, "color_lighting") else 0.0,
        mean=mean,
        std=std,
        is_datum=_truth(op, "use_caffe_datum"),
        is_raw=gpu_transform and not on_gpu,
        is_planar=gpu_transform and on_gpu,
        output_dtype=np.float16 if half else np.float32,
        threads=max(args.integer("decode_threads", default=4), 1),
        max_error_ratio=args.number("max_decode_error_ratio", default=1.0),
    )
    _check(op, settings)
    return settings


def _truth(op: HostOp, name: str, *, default: bool = False) -> bool:
    """Whether an argument is not 0; programs set ``color=3``."""
    return op.args.integer(name, default=int(default)) != 0


def _check(op: HostOp, settings: Settings) -> None:
    if settings.batch_size < 1:
        raise op.error("batch_size must be 1 at least")
    if settings.crop < 1 or settings.scale < settings.crop:
        raise op.error(f"crop must be from 1 to the scale or minsize ({settings.scale}), not {settings.crop}")
    if len(settings.output_sizes) != len(op.outputs) - 2:
        raise op.error("output_sizes must have a size for each output after the label")
    if not settings.label_type.is_single and settings.num_labels < 1:
        raise op.error("num_labels must be the number of labels for several labels of an image")
    if settings.is_datum and (not settings.label_type.is_single or len(op.outputs) != _DATUM_OUTPUTS):
        raise op.error("use_caffe_datum supports a single label, and no outputs after it")


def _scales(op: HostOp) -> tuple[int, int, tuple[int, int] | None]:
    """Return the arguments scale, minsize and random_scale, of which one must be given."""
    scale = op.args.integer("scale", default=-1)
    minsize = op.args.integer("minsize", default=-1)
    bounds = op.args.integers("random_scale", default=(-1, -1))
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise op.error("random_scale must be a minimum and a maximum")
    drawn = -1 not in bounds
    if drawn:
        minsize = bounds[0]
    if (scale > 0) == (minsize > 0):
        raise op.error("either scale or minsize (or random_scale) must be given")
    return scale, minsize, (bounds[0], bounds[1]) if drawn else None


def _per_channel(op: HostOp, name: str, default: float) -> Array:
    """Return a value for each of three channels."""
    values = op.args.numbers(f"{name}_per_channel", default=()) or (op.args.number(name, default=default),)
    if len(values) not in (1, 3):
        raise op.error(f"{name}_per_channel must have 1 or 3 values, not {len(values)}")
    return np.broadcast_to(np.array(values, np.float32), 3)


def _default_box(op: HostOp) -> Box | None:
    values = [op.args.integer(f"bounding_{name}", default=-1) for name in ("ymin", "xmin", "height", "width")]
    return None if min(values) < 0 else Box(*values)
