"""The window of convolutions and pools: kernel, strides, dilations and pads, from the attributes of an ONNX node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from caffe2_backend.emit.shapes import Size, as_value, dims_of, known_size
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.operator_base import UnsupportedError

# Caffe2's LegacyPadding: ceil(size / stride) windows, the odd pad behind the image; and the pools of Caffe.
_SAME: Final = 2
CAFFE_POOLING: Final = 3


@dataclass(frozen=True)
class Window:
    """Sizes along each spatial axis, in elements; ``pads`` are those before all axes, then those after.

    Pads that depend on the size of the image (``auto_pad``) are blobs where that size is known at run time only;
    ``is_same``: they are those of SAME_UPPER.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[Size]
    is_same: bool = False

    def __post_init__(self) -> None:
        """Refuse the operator where numbers of axes differ."""
        sizes = (self.strides, self.dilations, *([self.pads[::2]] if self.pads else []))
        if any(len(size) != self.rank for size in sizes) or len(self.pads) % 2:
            raise UnsupportedError(
                f"a window of {self.rank} axes must have as many strides and dilations, and twice as many pads",
                code="invalid-argument",
            )

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def known_pads(self) -> list[int] | None:
        """The pads where all are known."""
        pads = [pad for pad in map(known_size, self.pads) if pad is not None]
        return pads if len(pads) == len(self.pads) else None

    @property
    def spans(self) -> list[int]:
        """The extent of the dilated kernel along each axis."""
        return [(k - 1) * dilation + 1 for k, dilation in zip(self.kernel, self.dilations, strict=True)]

    def arguments(self, pads: Sequence[int]) -> dict[str, Any]:
        """Return the arguments that every operator of Caffe2 with a window has."""
        return {"kernels": self.kernel, "strides": self.strides, "pads": pads}

    @property
    def same_arguments(self) -> dict[str, Any] | None:
        """The arguments with which Caffe2 computes the pads of SAME_UPPER itself; None for other pads."""
        return {"kernels": self.kernel, "strides": self.strides, "legacy_pad": _SAME} if self.is_same else None


def kernel_shape(op: Op, kernel: Value) -> tuple[int, ...]:
    """Return the sizes of a kernel's spatial axes: the attribute, else those of the operand."""
    if "kernel_shape" in op.args:
        return op.args.integers("kernel_shape")
    shape = op.static_shape(kernel)
    if shape is None:
        op.needs_shape("the sizes of the kernel are unknown")
    return shape[2:]


def read_window(op: Op, image: Value, kernel: Sequence[int]) -> Window:
    """Return the window of a convolution or pool over an image [n, c, ...]."""
    rank = len(kernel)
    strides = op.args.integers("strides", default=()) or (1,) * rank
    dilations = op.args.integers("dilations", default=()) or (1,) * rank
    given = op.args.integers("pads", default=()) or (0,) * (2 * rank)
    if min(given, default=0) < 0:
        op.unsupported("pads must not be negative", code="invalid-argument")
    pads: Sequence[Size] = given
    match op.args.text("auto_pad", default="NOTSET"):
        case "VALID":
            pads = (0,) * (2 * rank)
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            pads = _same_pads(op, image, Window(kernel, strides, dilations, ()), upper=mode == "SAME_UPPER")
            return Window(kernel, strides, dilations, pads, is_same=mode == "SAME_UPPER")
    return Window(kernel, strides, dilations, pads)


def image_sizes(op: Op, image: Value) -> list[int]:
    """Return the sizes of the spatial axes of an image; refuses the node where one is unknown."""
    sizes = [dim for dim in list(op.shape(image))[2:] if isinstance(dim, int)]
    if len(sizes) != op.rank(image) - 2:
        op.needs_shape("the size of the image is unknown")
    return sizes


def _same_pads(op: Op, image: Value, window: Window, *, upper: bool) -> list[Size]:
    """Return pads with which there are ceil(size / stride) windows.

    The total is (ceil(size / stride) - 1) * stride + span - size, at least 0: span - 1 for a stride of 1, whatever the
    size. The odd element is after the image (``upper``), or before it.
    """
    before: list[Size] = []
    after: list[Size] = []
    for size, stride, span in zip(dims_of(op, image, window.rank + 2)[2:], window.strides, window.spans, strict=True):
        if stride == 1:
            total = as_value(op, span - 1)
        else:
            total = ((size + (stride - 1)) // stride * stride - stride + span - size).maximum(0)
        less = total // 2
        more = total - less
        before.append(less if upper else more)
        after.append(more if upper else less)
    return [*before, *after]
