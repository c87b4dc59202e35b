"""Costs of operators, by Caffe2's formulas: floating point operations, and bytes that are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from caffe2_backend import workspace as functions
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.netdef.window import window_argument
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_compat.extension.values.blobs import text
from caffe2_compat.workspace.named_workspaces import current

__all__ = ["get_operator_cost"]

_BYTES: Final = 4  # Caffe2 counts so many for an element of any type
Shape = Sequence[int]


@dataclass(frozen=True)
class _Shapes:
    inputs: Sequence[Shape]
    output: Shape


def _elements(count: int) -> Callable[[_Shapes], int]:
    return lambda shapes: count * prod(shapes.output)


def _sum(shapes: _Shapes) -> int:
    return (len(shapes.inputs) - 1) * prod(shapes.output)


def _conv(shapes: _Shapes) -> int:
    # Each element of the output is a product with one output channel's filter. The output has as many elements as
    # N * positions * output channels.
    return 2 * prod(shapes.output) * prod(shapes.inputs[1][1:])


def _fc(shapes: _Shapes) -> int:
    columns = prod(shapes.inputs[1][1:])
    return prod(shapes.output) * (2 * columns + 1)


def _batch_matmul(shapes: _Shapes) -> int:
    return 2 * prod(shapes.output) * shapes.inputs[0][-1]


_FORMULAS: Final[dict[str, Callable[[_Shapes], int]]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _elements(1)),
    **dict.fromkeys(("Relu", "Concat"), _elements(0)),
    **dict.fromkeys(("Conv", "Conv1D", "Conv2D", "Conv3D"), _conv),
    "BatchMatMul": _batch_matmul,
    "FC": _fc,
    "SpatialBN": _elements(4),
    "Sum": _sum,
}


def get_operator_cost(op_def: bytes, blobs: Sequence[object]) -> tuple[int, int]:
    """Return the floating point operations and the bytes written by an operator on tensors of the current workspace.

    Raises RunError if Caffe2 has no formula for the operator type that is known here, or the shapes cannot be inferred.
    """
    op = OperatorDef.FromString(op_def)
    formula = _FORMULAS.get(op.type)
    if formula is None:
        raise RunError(f"no cost function is defined for operator {op.type}")
    shapes = [list(current().host_array(text(name)).shape) for name in blobs]
    output = _conv_output(op, *shapes[:2]) if formula is _conv else _output(op, shapes)
    return int(formula(_Shapes(shapes, output))), prod(output) * _BYTES


def _output(op: OperatorDef, shapes: Sequence[Shape]) -> Shape:
    # Shapes alone matter; the inference takes them as those of float32 tensors.
    inferred, _ = functions.InferShapesAndTypes([NetDef(op=[op])], dict(zip(op.input, shapes, strict=True)))
    if op.output[0] not in inferred:
        raise RunError(f"the shape of output {op.output[0]!r} of {op.type} cannot be inferred")
    return inferred[op.output[0]]


def _conv_output(op: OperatorDef, image: Shape, filters: Shape) -> Shape:
    """Return the shape of a convolution's output. Caffe2 does not compare the channels of filters and image."""
    args = OpView(op, 0).args
    last = args.text("order", default="NCHW") == "NHWC"
    size, kernel = (shape[1:-1] if last else shape[2:] for shape in (image, filters))
    count = len(size)
    pads = window_argument(args, "pad", 2 * count) or [0] * (2 * count)
    strides = window_argument(args, "stride", count) or [1] * count
    dilations = window_argument(args, "dilation", count) or [1] * count
    axes = zip(size, kernel, pads[:count], pads[count:], strides, dilations, strict=True)
    out = [(n + begin + end - dilation * (k - 1) - 1) // stride + 1 for n, k, begin, end, stride, dilation in axes]
    return [image[0], *out, filters[0]] if last else [image[0], filters[0], *out]
