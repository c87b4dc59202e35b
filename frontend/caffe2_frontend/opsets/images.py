"""Adapters of operators over images: pools, resizing, regions, quantization."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_frontend.interop.types import FLOAT
from caffe2_frontend.opsets.rewriter import Rewriter
from caffe2_frontend.opsets.rules import Rules

rules = Rules()


@rules.before(20, "GridSample")
def grid_sample(at: Rewriter) -> None:
    """Rename the mode, and refuse volumes, which there were not."""
    if at.rank(at.input(0)) != 4:
        at.refuse("its input does not have rank 4")
    mode = at.text("mode", "linear")
    at.set("mode", {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


@rules.before(19, "AveragePool")
def average_pool(at: Rewriter) -> None:
    """Refuse dilations: there were none."""
    attr = at.node.attributes.get("dilations")
    if attr is not None and set(attr.as_ints()) - {1}:
        at.refuse("it has dilations")
    at.node.attributes.pop("dilations", None)


@rules.before(18, "LpPool")
def lp_pool(at: Rewriter) -> None:
    """Refuse dilations, and numbers of windows that are rounded up: there was neither."""
    average_pool(at)
    at.drop("ceil_mode", 0)


@rules.before(12, "MaxPool")
def max_pool_of_bytes(at: Rewriter) -> ir.Value | None:
    """Pool floats, which hold all bytes."""
    x = at.input(0)
    if at.dtype(x).is_floating_point():
        return None
    attrs = {name: attr.value for name, attr in at.node.attributes.items()}
    return at.cast(at.emit("MaxPool", at.cast(x, FLOAT), **attrs), at.dtype(x))


@rules.before(10, "MaxPool", "AveragePool")
def pool(at: Rewriter) -> None:
    """Refuse numbers of windows that are rounded up, and dilations: there was neither."""
    at.drop("ceil_mode", 0)
    if "dilations" in at.node.attributes:
        average_pool(at)


@rules.before(18, "Resize")
def resize(at: Rewriter) -> None:
    """Require resizing along all axes, without smoothing."""
    at.drop("antialias", 0)
    at.drop("keep_aspect_ratio_policy", "stretch")
    if "axes" in at.node.attributes:
        at.refuse("it resizes along some axes")


@rules.before(13, "Resize")
def resize_with_region(at: Rewriter) -> None:
    """Add the operand that says which region is resized, which had to be given."""
    if not at.has_input(1):
        at.replace_input(1, at.const([], np.float32))
    if not at.has_input(2):
        at.replace_input(2, at.const([], np.float32))


@rules.before(11, "Resize")
def resize_by_scales(at: Rewriter) -> ir.Value:
    """Resize by scales: pixels of a growing image were read at their position divided by the scale, rounded down."""
    how = at.text("coordinate_transformation_mode", "half_pixel")
    mode = at.text("mode", "nearest")
    if how != "asymmetric" or (mode == "nearest" and at.text("nearest_mode", "round_prefer_floor") != "floor"):
        at.refuse(f"it reads pixels by {how}")
    if mode not in {"nearest", "linear"}:
        at.refuse(f"its mode is {mode}")
    if at.has_input(3):
        at.refuse("it resizes to sizes")
    x, scales = at.input(0), at.input(2)
    known = at.constant(2)
    if (known is None or known.min() < 1) and (at.target < 10 or mode == "nearest"):
        # In opset 10, runtimes round positions up where an axis shrinks.
        at.refuse("it may shrink the image")
    if at.target >= 10:
        return at.emit_old("Resize", x, scales, like=at.node.outputs[0], mode=mode)
    if not at.dtype(x).is_floating_point():
        small = at.emit_old("Upsample", at.cast(x, FLOAT), scales, like=at.node.outputs[0], mode=mode)
        small.type = ir.TensorType(FLOAT)
        return at.cast(small, at.dtype(x))
    return at.emit_old("Upsample", x, scales, like=at.node.outputs[0], mode=mode)


@rules.before(16, "RoiAlign")
def roi_align(at: Rewriter) -> None:
    """Require regions that are not moved by half a pixel."""
    if at.text("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        at.refuse("it moves regions by half a pixel")
    at.node.attributes.pop("coordinate_transformation_mode", None)


@rules.before(13, "QuantizeLinear", "DequantizeLinear")
def quantize_tensor(at: Rewriter) -> None:
    """Require one scale for all channels."""
    scale = at.input(1)
    if scale.shape is None or len(scale.shape) > 0:
        at.refuse("it has a scale for each channel")
    at.node.attributes.pop("axis", None)
