"""Adapters of opset 7 and later: what ONNX's converter passes unchanged although it means something else later."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from caffe2_backend.opsets.old_node import OldNode
from caffe2_backend.opsets.rules import Rules

rules = Rules()


@rules.before(13, "Hardmax")
def flatten_hardmax(at: OldNode) -> ir.Value:
    """Return the Hardmax of the rows of a matrix, as it was: of all dims from ``axis`` on."""
    axis = at.pop_integer("axis", 1)
    x = at.input(0)
    rows = at.emit("Hardmax", at.emit("Flatten", x, axis=axis), axis=1)
    return at.emit("Reshape", rows, at.emit("Shape", x))


@rules.before(11, "Resize")
def resize_twice(at: OldNode) -> ir.Value | None:
    """Resize axes that shrink and axes that grow each by a node, which rounds the nearest element one way only."""
    scales = at.constant(1) if at.has_input(1) else None
    if scales is None or (scales <= 1).all() or (scales >= 1).all():
        return None
    mode = at.pop_text("mode", "nearest")
    smaller = at.emit("Resize", at.input(0), at.const(np.minimum(scales, 1), np.float32), mode=mode)
    return at.emit("Resize", smaller, at.const(np.maximum(scales, 1), np.float32), mode=mode)


@rules.before(9, "BatchNormalization")
def normalize_elements(at: OldNode) -> ir.Value | None:
    """Normalize by statistics for each element of a sample, instead of each channel, where ``spatial`` is 0."""
    if at.pop_integer("spatial", 1):
        return None
    at.only_output()
    x, scale, bias, mean, variance = (at.input(index) for index in range(5))
    dtype = next((value.dtype for value in (x, scale, bias) if value.dtype is not None), ir.DataType.FLOAT)
    epsilon = at.const(at.pop_number("epsilon", 1e-5), dtype.numpy())
    deviation = at.emit("Sqrt", at.emit("Add", variance, epsilon))
    normalized = at.emit("Div", at.emit("Sub", x, mean), deviation)
    return at.emit("Add", at.emit("Mul", normalized, scale), bias)


@rules.before(9, "Scan")
def refuse_sequence_lengths(at: OldNode) -> None:
    """Refuse the lengths of sequences, Scan's first input; other Scans go through ``passes/upgrade_scan.py``."""
    if at.has_input(0):
        at.refuse("its sequence lengths have no later equivalent")
