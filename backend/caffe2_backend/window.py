"""The window of convolutions and pools: kernel, strides, dilations and pads as ONNX says them."""

from __future__ import annotations

from dataclasses import dataclass

from caffe2_backend.op import Op


@dataclass(frozen=True)
class Window:
    """Sizes along each spatial axis; ``pads`` are those before all axes, then those after; below zero they crop."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]

    @property
    def rank(self) -> int:
        """How many spatial axes there are."""
        return len(self.kernel)

    def arguments(self) -> dict[str, list[int]]:
        """The arguments that every operator with a window has."""
        return {"kernels": self.kernel, "strides": self.strides, "pads": self.pads}


def read_window(op: Op, kernel: list[int]) -> Window:
    """The window of a convolution or pool. ``auto_pad`` needs the sizes of the image, which may be a finding."""
    rank = len(kernel)
    strides = op.integers("strides") or [1] * rank
    dilations = op.integers("dilations") or [1] * rank
    pads = op.integers("pads") or [0] * 2 * rank
    match op.text("auto_pad", "NOTSET"):
        case "VALID":
            pads = [0] * 2 * rank
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            pads = _same(op, kernel, strides, dilations, upper=mode == "SAME_UPPER")
    return Window(kernel, strides, dilations, pads)


def image_dims(op: Op) -> list[int]:
    """The sizes of the spatial axes; unknown ones are a finding."""
    dims = [dim for dim in list(op.shape())[2:] if isinstance(dim, int)]
    if len(dims) != op.rank() - 2:
        op.unsupported("an image of unknown size", code="needs-shape")
    return dims


def _same(op: Op, kernel: list[int], strides: list[int], dilations: list[int], *, upper: bool) -> list[int]:
    before, after = [], []
    sizes = image_dims(op) if max(strides) > 1 else [0] * len(kernel)  # a stride of one needs the same for every size
    for size, k, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size, 0)
        less = total // 2
        before.append(less if upper else total - less)
        after.append(total - less if upper else less)
    return [*before, *after]
