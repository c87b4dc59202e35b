"""Adapters of opsets 1 to 6, in the form of opset 7."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_backend.opsets.old_node import OldNode
from caffe2_backend.opsets.rules import Rules

rules = Rules()

_BROADCAST: Final = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
_SUFFIX: Final = -1  # the axis of a second operand that is aligned with the last dims of the first


@rules.before(7, *_BROADCAST)
def align_operands(at: OldNode) -> None:
    """Align the second operand with the dims of the first one from ``axis`` on; by default both end together."""
    axis = at.pop_integer("axis", _SUFFIX)
    if not at.pop_integer("broadcast", 0) or axis == _SUFFIX:
        return
    rank, inner = at.rank(at.input(0)), at.rank(at.input(1))
    start = axis + rank if axis < 0 else axis
    if not 0 <= start <= rank - inner:
        at.refuse(f"{inner} dims from axis {axis} on do not fit into {rank} dims")
    trailing = list(range(inner, rank - start))
    if trailing:
        at.replace_input(1, at.emit("Unsqueeze", at.input(1), axes=trailing))


@rules.before(7, "PRelu")
def align_slopes(at: OldNode) -> None:
    """Align slopes, one for each channel, with the second dim."""
    slope = at.input(1)
    rank = at.rank(at.input(0))
    if at.rank(slope) == 1 and rank > 2 and not (slope.shape is not None and slope.shape[0] == 1):
        at.replace_input(1, at.emit("Unsqueeze", slope, axes=list(range(1, rank - 1))))


@rules.before(7, "Gemm")
def broadcast_addend(at: OldNode) -> None:
    """Drop the attribute without which the addend did not broadcast."""
    at.pop_integer("broadcast", 0)


@rules.before(7, "Dropout")
def test_dropout(at: OldNode) -> None:
    """Drop the mode: training was the default, but the import computes the inference, as of later opsets."""
    at.pop_integer("is_test", 0)


@rules.before(7, "BatchNormalization")
def test_normalization(at: OldNode) -> None:
    """Refuse normalization by the statistics of the batch, which ``is_test`` chose."""
    if at.has("is_test") and not at.pop_integer("is_test", 0):
        at.refuse("attribute 'is_test' is 0: statistics of the batch are not supported")


@rules.before(7, "LSTM", "GRU", "RNN")
def drop_output_sequence(at: OldNode) -> None:
    """Drop the attribute that asked for the sequence of outputs."""
    at.pop_integer("output_sequence", 0)


@rules.before(3, "GRU")
def correct_direction(at: OldNode) -> None:
    """Correct the default of ``direction``, which had a typo."""
    if at.text("direction", "") == "foward":
        at.set("direction", "forward")


@rules.before(7, "Upsample")
def gather_scales(at: OldNode) -> None:
    """Join the scales, which were two attributes, and call the mode linear that was called bilinear."""
    scales = [at.pop_number(name, 1.0) for name in ("height_scale", "width_scale")]
    at.set("scales", [1.0, 1.0, *scales])
    if at.pop_text("mode", "nearest") == "bilinear":
        at.set("mode", "linear")


@rules.before(6, "Cast")
def number_type(at: OldNode) -> None:
    """Replace the name of the element type with its number."""
    name = at.pop_text("to", "").upper()
    if name not in ir.DataType.__members__:
        at.refuse(f"attribute 'to' is {name!r}, which is not an element type")
    at.set("to", int(ir.DataType[name]))


@rules.before(6, "Selu")
def set_constants(at: OldNode) -> None:
    """Set the default constants, which had fewer digits."""
    at.set_default("alpha", 1.6732)
    at.set_default("gamma", 1.0507)


@rules.before(6, "Tile")
def list_repeats(at: OldNode) -> None:
    """List the repeats of all axes in one operand; one axis was repeated, by two operands."""
    tiles, axis = at.constant(1), at.constant(2)
    if tiles is None or axis is None or tiles.size != 1 or axis.size != 1:
        at.refuse("the number of tiles and the axis must be constant numbers")
    repeats = np.ones(at.rank(at.input(0)), np.int64)
    if not -repeats.size <= axis.item() < repeats.size:
        at.refuse(f"axis {axis.item()} is out of range for rank {repeats.size}")
    repeats[int(axis.item())] = int(tiles.item())
    at.replace_input(1, at.const(repeats, np.int64))
    at.keep_inputs(2)


@rules.before(5, "Reshape")
def feed_shape(at: OldNode) -> None:
    """Move the shape from an attribute to an operand."""
    if not at.has("shape"):
        at.refuse("attribute 'shape' is missing")
    at.keep_inputs(1)
    at.replace_input(1, at.const(at.pop_integers("shape"), np.int64))


@rules.before(4, "Concat")
def set_axis(at: OldNode) -> None:
    """Set the default of the axis, which was 1."""
    at.set_default("axis", 1)


@rules.before(2, "Pad")
def rename_pads(at: OldNode) -> None:
    """Give the pads their later name."""
    if not at.has("paddings"):
        at.refuse("attribute 'paddings' is missing")
    at.set("pads", at.pop_integers("paddings"))


@rules.before(2, "Split")
def read_sizes(at: OldNode) -> None:
    """Move the sizes to an attribute where they are an operand."""
    if not at.has_input(1):
        return
    sizes = at.constant(1)
    if sizes is None:
        at.refuse("the sizes must be constant")
    at.keep_inputs(1)
    at.set("split", [int(size) for size in sizes])


@rules.before(2, "GlobalLpPool", "LpPool")
def round_exponent(at: OldNode) -> None:
    """Make the exponent, a float, an integer."""
    exponent = at.pop_number("p", 2.0)
    if not exponent.is_integer():
        at.refuse(f"attribute 'p' must be an integer, not {exponent}")
    at.set("p", int(exponent))
