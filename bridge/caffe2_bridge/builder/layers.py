"""Operators together with the parameters that they read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from caffe2_bridge.builder.initializers import ONES, XAVIER, ZEROS, Initializer
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob

_EPSILON: Final = 1e-4  # that of Caffe2's own layer of this name; the operator's default is 1e-5


def fc(
    net: Net, blob: str, name: str, size: int, out_size: int, *, axis: int = 1, weight: Initializer = XAVIER
) -> Blob:
    """``X W^T + b`` as ``name``, with parameters ``<name>_w`` [out_size, size] and ``<name>_b`` [out_size].

    The dims of ``blob`` from ``axis`` on have ``size`` elements together.
    """
    w = net.param(name + "_w", (out_size, size), weight)
    b = net.param(name + "_b", (out_size,), ZEROS)
    return net.op("FC", (blob, w, b), name, axis=axis)


def concat(net: Net, blobs: Iterable[str], name: str, *, axis: int) -> Blob:
    """Blobs one after another along ``axis``, as ``name``."""
    return net.op("Concat", tuple(blobs), (name, f"_{name}_concat_dims"), axis=axis)[0]


def layer_norm(net: Net, blob: str, name: str, size: int) -> tuple[Blob, Blob, Blob]:
    """``blob`` normalized over its last dim (``size``), scaled and shifted; then the mean and the deviation.

    Parameters ``<name>_scale`` and ``<name>_bias``, both [size].
    """
    scale = net.param(name + "_scale", (size,), ONES)
    bias = net.param(name + "_bias", (size,), ZEROS)
    normalized, mean, deviation = net.op(
        "LayerNorm",
        (blob, scale, bias),
        (name, name + "_mean", name + "_std"),
        axis=-1,
        epsilon=_EPSILON,
        elementwise_affine=True,
    )
    return normalized, mean, deviation


def dropout(net: Net, blob: str, name: str, *, ratio: float, is_test: bool) -> Blob:
    """A share ``ratio`` of the elements set to zero and the others scaled up; nothing where ``is_test``."""
    return net.op("Dropout", blob, (name, f"_{name}_mask"), ratio=float(ratio), is_test=is_test)[0]
