"""The window of convolutions and pools: kernel, strides, dilations and pads as ONNX says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_backend.emit.shapes import dim_parts
from caffe2_backend.emit.value import Number, count
from caffe2_backend.lowering.op import Op

Pad = int | Number


@dataclass(frozen=True)
class Window:
    """Sizes along each spatial axis; ``pads`` are those before all axes, then those after.

    Pads that follow from the size of an image, where that is known at run time alone, are numbers of that time.
    """

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    pads: Sequence[Pad]

    @property
    def rank(self) -> int:
        """How many spatial axes there are."""
        return len(self.kernel)

    @property
    def fixed_pads(self) -> list[int] | None:
        """The pads where all are known."""
        pads = [pad for pad in self.pads if isinstance(pad, int)]
        return pads if len(pads) == len(self.pads) else None

    @property
    def spans(self) -> list[int]:
        """How far the kernel reaches along each axis."""
        return [(k - 1) * dilation + 1 for k, dilation in zip(self.kernel, self.dilations, strict=True)]

    def arguments(self, pads: list[int]) -> dict[str, list[int]]:
        """The arguments that every operator with a window has."""
        return {"kernels": self.kernel, "strides": self.strides, "pads": pads}


def read_window(op: Op, kernel: list[int]) -> Window:
    """The window of a convolution or pool."""
    rank = len(kernel)
    strides = op.integers("strides") or [1] * rank
    dilations = op.integers("dilations") or [1] * rank
    given = op.integers("pads") or [0] * 2 * rank
    if min(given) < 0:
        op.unsupported("pads below zero", code="invalid-argument")
    pads: Sequence[Pad] = given
    match op.text("auto_pad", "NOTSET"):
        case "VALID":
            pads = [0] * 2 * rank
        case "SAME_UPPER" | "SAME_LOWER" as mode:
            pads = _same(op, Window(kernel, strides, dilations, []), upper=mode == "SAME_UPPER")
    return Window(kernel, strides, dilations, pads)


def image_dims(op: Op) -> list[int]:
    """The sizes of the spatial axes; unknown ones are a finding."""
    dims = [dim for dim in list(op.shape())[2:] if isinstance(dim, int)]
    if len(dims) != op.rank() - 2:
        op.unsupported("an image of unknown size", code="needs-shape")
    return dims


def _same(op: Op, window: Window, *, upper: bool) -> list[Pad]:
    """Pads with which there are as many windows as strides in the image; a stride of one needs the same for all."""
    before: list[Pad] = []
    after: list[Pad] = []
    for part, stride, span in zip(dim_parts(op, 0)[2:], window.strides, window.spans, strict=True):
        less: Pad
        more: Pad
        if stride == 1:
            less, more = (span - 1) // 2, span - 1 - (span - 1) // 2
        else:
            size = count(op, part)
            number = ((size + (stride - 1)) // stride * stride - stride + span - size).at_least(0)
            half = number // 2
            less, more = _plain(half), _plain(number - half)
        before.append(less if upper else more)
        after.append(more if upper else less)
    return [*before, *after]


def _plain(number: Number) -> Pad:
    return number if number.known is None else int(number.known)
