"""MobileNetV2 of Int8 operators, with random weights and scales that keep values in the range of a byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from conformance.recording import ArgumentValue, operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

# Expansion, channels, repeats and first stride of each stage (Sandler et al., 2018, table 2).
STAGES: Final = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
CLASSES: Final = 1000
# Steps of weights, and the root mean square of what a layer reads: its result then has a deviation of about 1.
WEIGHT_DEVIATION: Final = 30.0
RMS: Final = 0.7
POSITIVE: Final = (6 / 255, 0)
SIGNED: Final = (0.05, 128)

Kind = tuple[float, int]


@dataclass
class _Builder:
    random: np.random.Generator
    ops: list[OperatorDef] = field(default_factory=list)
    fills: list[OperatorDef] = field(default_factory=list)

    def add(self, op_type: str, inputs: list[str], how: Kind | None = None, **args: ArgumentValue) -> str:
        name = f"{op_type}_{len(self.ops)}"
        if how is not None:
            args |= {"Y_scale": how[0], "Y_zero_point": how[1], "order": "NHWC"}
        self.ops.append(operator(op_type, inputs, [name], **args))
        return name

    def product(
        self, op_type: str, x: str, kinds: tuple[Kind, Kind], shape: tuple[int, ...], **args: ArgumentValue
    ) -> str:
        """Add an operator with weights of ``shape`` [M, ...] and biases; ``kinds`` are those of X and Y."""
        steps = self.random.normal(0, WEIGHT_DEVIATION, shape)
        scale = 1 / (WEIGHT_DEVIATION * RMS * float(np.prod(shape[1:])) ** 0.5)
        bias_scale = kinds[0][0] * scale
        bias = np.rint(self.random.normal(0, 0.1 / bias_scale, shape[0])).astype(np.int32)
        w, b = f"w{len(self.fills)}", f"b{len(self.fills)}"
        data = np.clip(np.rint(steps) + 128, 0, 255).astype(np.uint8)
        self.fills += [
            operator(
                "Int8GivenTensorFill", [], [w], shape=shape, values=data.tobytes(), Y_scale=scale, Y_zero_point=128
            ),
            operator(
                "Int8GivenIntTensorFill", [], [b], shape=[shape[0]], values=bias.tolist(), Y_scale=bias_scale,
                Y_zero_point=0,
            ),
        ]  # fmt: skip
        return self.add(op_type, [x, w, b], kinds[1], **args)


def mobilenet_v2(seed: int = 0) -> tuple[NetDef, NetDef]:
    """Return the predict and the init net: ``data`` [N, 3, 224, 224] to the shares of 1000 classes."""
    net = _Builder(np.random.default_rng(seed))
    image = net.add("Int8Quantize", [net.add("NCHW2NHWC", ["data"])], SIGNED)
    x = net.product("Int8ConvRelu", image, (SIGNED, POSITIVE), (32, 3, 3, 3), kernel=3, stride=2, pad=1)
    channels, kind = 32, POSITIVE
    for expansion, filters, repeats, first in STAGES:
        for index in range(repeats):
            stride, wide, block = (1 if index else first), channels * expansion, x
            if expansion > 1:
                block = net.product("Int8ConvRelu", block, (kind, POSITIVE), (wide, 1, 1, channels), kernel=1)
            block = net.product(
                "Int8ConvRelu", block, (POSITIVE, POSITIVE), (wide, 3, 3, 1), kernel=3, stride=stride, pad=1, group=wide
            )
            block = net.product("Int8Conv", block, (POSITIVE, SIGNED), (filters, 1, 1, wide), kernel=1)
            x = net.add("Int8Sum", [block, x], SIGNED) if index else block
            channels, kind = filters, SIGNED
    x = net.product("Int8ConvRelu", x, (SIGNED, POSITIVE), (1280, 1, 1, channels), kernel=1)
    x = net.add("Int8AveragePool", [x], POSITIVE, kernel=7)
    x = net.product("Int8FC", x, (POSITIVE, SIGNED), (CLASSES, 1280))
    logits = net.add("Int8Dequantize", [x])
    output = net.add("Softmax", [logits])
    weights = [fill.output[0] for fill in net.fills]
    inputs, outputs = ["data", *weights], [logits, output]
    predict = NetDef(name="mobilenet_v2", op=net.ops, external_input=inputs, external_output=outputs)
    return predict, NetDef(name="mobilenet_v2_init", op=net.fills, external_output=weights)
