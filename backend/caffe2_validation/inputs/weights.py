"""Weights: which operands of an operator they are, their shapes, and their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Final

import numpy as np

from caffe2_bridge.control import RecurrentNetwork, control_of
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.parameters import Array, Int8Tensor
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument
from caffe2_bridge.operators import infer_shapes
from caffe2_validation.inputs.assumptions import Shape
from caffe2_validation.roles import Shapes

CONVOLUTIONS: Final = frozenset({"Conv", "ConvRelu", "ConvTranspose", "Int8Conv", "Int8ConvRelu", "Int8ConvTranspose"})
LAYERS: Final = frozenset({"FC", "FCTransposed", "Int8FC", "FbFCPacked"})
PER_CHANNEL: Final = frozenset({"AffineChannel", "InstanceNorm", "GroupNorm", "PRelu", "SpatialBN"})
SUMS: Final = frozenset({"Add", "Sub", "Mul", "Div", "Sum", "SumRelu", "Int8Add", "Int8Sum", "Int8SumRelu"})
# Operators whose output has the channels of their input.
PASS: Final = frozenset({
    "Abs", "AffineChannel", "AveragePool", "ChannelShuffle", "Clip", "Copy", "Dropout", "Elu", "Exp", "Gelu",
    "GroupNorm", "HardSigmoid", "InstanceNorm", "Int8AveragePool", "Int8Dequantize", "Int8MaxPool", "Int8Quantize",
    "Int8Relu", "Int8ResizeNearest", "Int8Softmax", "LRN", "LeakyRelu", "Log", "LpPool", "MaxPool", "Mish",
    "NHWC2NCHW", "Negative", "Normalize", "PRelu", "Relu", "ReluN", "ResizeNearest", "Scale", "Selu", "Sigmoid",
    "Softmax", "Softplus", "Softsign", "SpatialBN", "Sqr", "Sqrt", "StopGradient", "Swish", "Tanh",
    "UpsampleBilinear",
})  # fmt: skip


# Operators on the states of recurrent nets: the index of the gates, which follow the states, and their parts.
STATES: Final = {"LSTMUnit": (2, 4), "GRUUnit": (1, 3)}
# Features of states if nothing fixes them.
_HIDDEN: Final = 6
_MOST_CHANNELS: Final = 4096


@dataclass(frozen=True)
class Demand:
    """What the readers of a blob demand: ``channels`` (0: any), and the standard deviation, ``spread``.

    ``multiple``: any multiple of the channels will do.
    """

    channels: int = 0
    spread: float = 1.0
    multiple: bool = False


def is_weight(op: OpView, index: int) -> bool:
    """Whether an operand is a weight, by its index; of sums and products, one that is broadcast."""
    if op.type in CONVOLUTIONS | LAYERS | PER_CHANNEL:
        return index > 0
    if op.type in SUMS:
        return index == 1 and op.args.flag("broadcast", default=False)
    return op.type == "MatMul" and index == 1


def weight_shape(op: OpView, index: int, shapes: Shapes, demand: Demand, width: int) -> Shape | None:
    """Return the shape that a weight must have.

    Args:
        op: the operator that reads it.
        index: of the operand; not 0.
        shapes: returns the shape of a blob that exists.
        demand: of the readers of the result.
        width: channels and features where the net does not demand a number.

    Returns None if it does not follow from the operator. Raises RunError if the channels cannot be grouped.
    """
    known = [shapes(name) for name in op.inputs]
    if op.type in SUMS:
        return None if known[0] is None else broadcast_shape(op, known[0])
    found = infer_shapes(op, known, usual=True)
    result = list(found[len(known)] or ()) if op.outputs else []
    if op.type in CONVOLUTIONS | LAYERS | {"MatMul"} and result:
        at = 1 if op.type in CONVOLUTIONS and not _last(op) else -1
        result[at] = result[at] or demand.channels or _filters(op, known[0] or (), width)
        found = infer_shapes(op, known, [result], usual=True)
    shape = found[index]
    return None if shape is None else filled(op, index, shape, known)


def broadcast_shape(op: OpView, first: Shape) -> Shape:
    """Return the shape of the second operand of a sum or product: a vector if it is broadcast."""
    if not op.args.flag("broadcast", default=False):
        return first
    axis = op.args.integer("axis", default=-1)
    return first[-1:] if axis == -1 else first[axis : axis + 1]


def _filters(op: OpView, image: Shape, width: int) -> int:
    """Return the channels of the result of a product; those of a convolution are a multiple of its groups."""
    if op.type not in CONVOLUTIONS:
        return width
    group, channels = op.args.integer("group", default=1), _channels(op, image)
    if channels % group:
        raise RunError(f"the {channels} channels of {op.inputs[0]!r} are not a multiple of the {group} groups")
    return channels if group == channels and group > 1 else -(-width // group) * group


def filled(op: OpView, index: int, shape: Sequence[int | None], known: Sequence[Shape | None], size: int = 1) -> Shape:
    """Return a shape whose unknown dims are ``size``, one after the other, unless they follow from the others."""
    while None in shape:
        at = list(shape).index(None)
        other = (*shape[:at], size, *shape[at + 1 :])
        shape = infer_shapes(op, [*known[:index], other, *known[index + 1 :]])[index] or other
    return tuple(dim for dim in shape if dim is not None)


def weight_values(op: OpView, index: int, shape: Shape, random: np.random.Generator) -> Array:
    """Return random values of a weight that preserve the variance of what passes through."""
    if (op.type == "SpatialBN" and index == 4) or (op.type in PER_CHANNEL and index == 1):
        return random.uniform(0.5, 1.5, shape).astype(np.float32)
    if op.type in SUMS:
        low, high = (0.5, 1.5) if op.type in ("Mul", "Div") else (-0.2, 0.2)
        return random.uniform(low, high, shape).astype(np.float32)
    if index > 1:
        return (0.1 * random.standard_normal(shape)).astype(np.float32)
    fan = prod(shape[1:]) if len(shape) > 1 else 1
    return (random.standard_normal(shape) / sqrt(max(fan, 1))).astype(np.float32)


def _channels(op: OpView, shape: Shape) -> int:
    if len(shape) < 2:
        return shape[0]
    return shape[-1 if _last(op) else 1]


def _last(op: OpView) -> bool:
    return op.args.text("order", default="NCHW") == "NHWC"


def require_room(op: OpView, shape: Shape) -> None:
    """Raise RunError if a window is larger than the padded image.

    Caffe2 refuses this; onnxruntime rounds a negative quotient towards zero, and returns one element.
    """
    sides = shape[1:-1] if _last(op) else shape[2:]
    rank = len(sides)
    kernels = window_argument(op.args, "kernel", rank)
    dilations = [*window_argument(op.args, "dilation", rank), *[1] * rank]
    all_pads = [*window_argument(op.args, "pad", 2 * rank), *[0] * (2 * rank)]
    for axis, (side, kernel) in enumerate(zip(sides, kernels, strict=False)):
        reach = (kernel - 1) * dilations[axis] + 1
        pads = all_pads[axis] + all_pads[axis + rank]
        if op.args.integer("legacy_pad", default=0) in (0, 3) and side + pads < reach:
            raise RunError(f"a window of {reach} is larger than the image of {side} with pads of {pads}")


def _reshaped_channels(op: OpView) -> int:
    """Return the channels with which a Reshape to constants runs for any other dims; 0 for any number."""
    shape = op.args.integers("shape", default=())
    fixed = prod(dim for dim in shape if dim > 0) if shape else 0
    return fixed if 1 < fixed <= _MOST_CHANNELS and -1 in shape else 0


def _shared(op: OpView, demand: Demand) -> Demand:
    """Return a demand on the first result of a Concat or Split, as one on its operands: equal parts."""
    if op.type == "Split":
        return replace(demand, channels=demand.channels * len(op.outputs))
    if op.type == "Concat" and not demand.multiple and demand.channels % len(op.inputs) == 0:
        return replace(demand, channels=demand.channels // len(op.inputs))
    return demand


def _passed(op: OpView, name: str, *, last: bool) -> bool | None:
    """Whether the channels of an operand are the last dim of the result; None if the result has others."""
    if op.type in SUMS:
        return last if not op.args.flag("broadcast", default=False) or op.inputs[0] == name else None
    if op.inputs[0] != name and op.type != "Concat":
        return None
    if op.type in ("NHWC2NCHW", "NCHW2NHWC"):
        return op.type == "NCHW2NHWC"
    if op.type == "Transpose":
        axes = op.args.integers("axes", default=())
        return bool(axes) and axes[-1] == (len(axes) - 1 if last else 1)
    return last if op.type in PASS | {"Concat", "ElementwiseLinear", "Flatten", "Split"} else None


_REACH: Final = 12  # operators that are passed at most
# Standard deviation of box regressions: boxes stay near their anchors.
_REGRESSION: Final = 0.1


class Demands:
    """Demands on blobs by the operators that read them, directly or through operators that keep the channels.

    Args:
        ops: the operators of the net.
        shapes: returns the shape of a blob that exists.
        classes: how many classes detections have if it cannot be inferred.
        anchors: the same of anchors.
    """

    def __init__(
        self, ops: Sequence[OpView], shapes: Callable[[str], Shape | None], *, classes: int = 5, anchors: int = 3
    ) -> None:
        self._readers: dict[str, list[OpView]] = {}
        self._links: dict[str, list[str]] = {}
        for op in ops:
            control = control_of(op)
            if isinstance(control, RecurrentNetwork):
                for inner, outer in control.links:
                    self._links.setdefault(outer, []).append(inner)
            for name in dict.fromkeys(op.inputs):
                self._readers.setdefault(name, []).append(op)
        self._shapes, self._classes, self._anchors = shapes, classes, anchors
        self._states: dict[tuple[str, int], bool] = {}

    def of(self, name: str, *, last: bool) -> Demand:
        """Return the demand on a blob; ``last`` if the channels are its last dim."""
        return self._of(name, last, _REACH, {})

    def _of(self, name: str, last: bool, reach: int, found: dict[tuple[str, bool, int], Demand]) -> Demand:
        """Return the demand on a blob; ``reach`` operators are passed at most.

        What was ``found`` at a distance is not searched again: n readers at each of m steps are n^m ways. It depends
        on the shapes that are known meanwhile, and so serves one search.
        """
        key = name, last, reach
        if key not in found:
            found[key] = self._searched(name, last, reach, found)
        return found[key]

    def _searched(self, name: str, last: bool, reach: int, found: dict[tuple[str, bool, int], Demand]) -> Demand:
        for op in self._readers.get(name, ()):
            demand = self._demand(op, name, last)
            if demand is None and reach and op.outputs and op.outputs[0] != name:
                passed = _passed(op, name, last=last)
                demand = None if passed is None else _shared(op, self._of(op.outputs[0], passed, reach - 1, found))
            if demand in (None, Demand()) and op.type == "ChannelShuffle":
                demand = Demand(op.args.integer("group"), multiple=True)
            if demand is not None and demand != Demand():
                return demand
        linked = (self._of(inner, last, reach - 1, found) for inner in self._links.get(name, ()) if reach)
        return next((demand for demand in linked if demand != Demand()), Demand())

    def is_state(self, name: str, reach: int = _REACH) -> bool:
        """Whether an operator reads a blob as a state or gates of one step, [1,N,D], directly or after a product."""
        key = name, reach
        if key not in self._states:
            self._states[key] = self._leads_to_state(name, reach)
        return self._states[key]

    def _leads_to_state(self, name: str, reach: int) -> bool:
        for op in self._readers.get(name, ()):
            if op.type in STATES and op.inputs.index(name) <= STATES[op.type][0]:
                return True
            kept = op.type in PASS | SUMS | {"Concat"} or (
                op.type in LAYERS and op.args.integer("axis", default=1) == 2 and op.inputs[0] == name
            )
            if kept and reach and op.outputs[0] != name and self.is_state(op.outputs[0], reach - 1):
                return True
        return False

    def _demand(self, op: OpView, name: str, last: bool) -> Demand | None:
        index = op.inputs.index(name)
        if op.type in ("GenerateProposals", "GenerateProposalsCPP") and index < 2:
            shape = self._shapes(op.inputs[3])
            count = shape[0] if shape else self._anchors
            return Demand(4 * count, _REGRESSION) if index else Demand(count)
        if (op.type, index) == ("BBoxTransform", 1):
            return Demand(4 * self._classes, _REGRESSION)
        if (op.type, index) == ("BoxWithNMSLimit", 0):
            return Demand(self._classes)
        channels = self._channels_for(op, index, name, last)
        return Demand(channels, multiple=op.type == "Reshape") if channels else None

    def _channels_for(self, op: OpView, index: int, name: str, last: bool) -> int:
        """Return the channels that operands which exist require; 0 for any number."""
        if op.type in SUMS:
            shapes = [self._shapes(other) for other in op.inputs if other != name]
            known = next((shape for shape in shapes if shape and len(shape) > 1), None)
            return known[-1 if last else 1] if known else 0
        if op.type in PER_CHANNEL and index == 0 and len(op.inputs) > 1:
            return (self._shapes(op.inputs[1]) or (0,))[0]
        if index == 0 and op.type == "Reshape":
            return _reshaped_channels(op)
        shape = infer_shapes(
            op, [None if i == index else self._shapes(o) for i, o in enumerate(op.inputs)], usual=True
        )[index]
        if op.type in STATES:
            gates, parts = STATES[op.type]
            return 0 if index > gates or not shape else shape[-1] or _HIDDEN * (parts if index == gates else 1)
        if index == 0 and op.type in CONVOLUTIONS:
            group = op.args.integer("group", default=1)
            return (shape[-1 if last else 1] if shape else None) or (group if group > 1 else 0)
        return (shape[-1] or 0) if index == 0 and last and shape and op.type in LAYERS | {"MatMul"} else 0


# Standard deviations: of sums of quantized products, in quantization steps, and of uniform random bytes.
_SUMS_SPREAD: Final = 40.0
_BYTES_SPREAD: Final = 74.0


def quantized_weight(
    op: OpView, index: int, shape: Shape, scales: tuple[float, float], random: np.random.Generator
) -> Int8Tensor:
    """Return random bytes of a weight, whose scale keeps the sums of products in range; or the int32 of a bias.

    ``scales`` are those of operand 0 and, for a bias, of operand 1.
    """
    x_scale, w_scale = scales
    if index > 1:
        return Int8Tensor(random.integers(-500, 500, shape).astype(np.int32), x_scale * w_scale, 0)
    fan = prod(shape) / (shape[-1] if "Transpose" in op.type else shape[0])
    scale = min(_SUMS_SPREAD / (sqrt(fan) * _BYTES_SPREAD**2), 0.5) * op.args.number("Y_scale", default=1.0) / x_scale
    return Int8Tensor(random.integers(0, 256, shape).astype(np.uint8), float(np.float32(scale)), 128)
