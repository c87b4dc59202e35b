"""Layers: operators with the parameters that they read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from caffe2_bridge.builder.initializers import ONES, XAVIER, ZEROS, Initializer
from caffe2_bridge.builder.net import Net
from caffe2_bridge.builder.scope import Blob

_EPSILON: Final = 1e-4  # the default of Caffe2's layer_norm helper; that of the operator is 1e-5


def fc(
    net: Net, blob: str, name: str, size: int, out_size: int, *, axis: int = 1, weight: Initializer = XAVIER
) -> Blob:
    """Add an FC, ``X W^T + b``, with parameters ``<name>_w`` [out_size, size] and ``<name>_b`` [out_size].

    ``size`` is the product of the dims of ``blob`` from ``axis`` on. Returns the output, ``name``.
    """
    w = net.param(name + "_w", (out_size, size), weight)
    b = net.param(name + "_b", (out_size,), ZEROS)
    return net.op("FC", (blob, w, b), name, axis=axis)


def concat(net: Net, blobs: Iterable[str], name: str, *, axis: int) -> Blob:
    """Concatenate blobs along ``axis``. Returns the output, ``name``."""
    output: Blob = net.op("Concat", tuple(blobs), (name, f"_{name}_concat_dims"), axis=axis)[0]
    return output


def layer_norm(net: Net, blob: str, name: str, size: int) -> tuple[Blob, Blob, Blob]:
    """Normalize ``blob`` over its last dim (``size``), with parameters ``<name>_scale`` and ``<name>_bias`` [size].

    Returns the output, the mean and the standard deviation.
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
    """Set a fraction ``ratio`` of the elements to zero and scale the others up; no operation if ``is_test``."""
    output: Blob = net.op("Dropout", blob, (name, f"_{name}_mask"), ratio=float(ratio), is_test=is_test)[0]
    return output
