"""ResNet-50 as a Caffe2 net with random weights, and the same computation in PyTorch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

BLOCKS: Final = (3, 4, 6, 3)
EXPANSION: Final = 4
CLASSES: Final = 1000
EPSILON: Final = 1e-5
Arrays = dict[str, np.ndarray[Any, Any]]


class _Builder:
    def __init__(self) -> None:
        self.ops: list[OperatorDef] = []
        self.values: Arrays = {}
        self._random = np.random.default_rng(0)

    def layer(self, source: str, name: str, sizes: tuple[int, int, int], stride: int = 1, *, relu: bool = True) -> str:
        """Return a convolution without bias, normalization and perhaps a Relu in place; ``sizes``: in, out, kernel."""
        channels, out, kernel = sizes
        scale = np.sqrt(2 / (channels * kernel * kernel))
        self.values[f"{name}_w"] = (self._random.standard_normal((out, channels, kernel, kernel)) * scale).astype("f4")
        norm = {"s": np.ones(out), "b": np.zeros(out), "m": np.zeros(out), "v": np.ones(out)}
        self.values.update({f"{name}_{key}": value.astype("f4") for key, value in norm.items()})
        self.ops.append(operator("Conv", [source, f"{name}_w"], [f"{name}_c"], kernel=kernel, stride=stride,
                                 pad=kernel // 2))  # fmt: skip
        self.ops.append(operator("SpatialBN", [f"{name}_c", *(f"{name}_{key}" for key in norm)], [name],
                                 is_test=1, epsilon=EPSILON))  # fmt: skip
        if relu:
            self.ops.append(operator("Relu", [name], [name]))
        return name

    def block(self, source: str, name: str, channels: int, width: int, stride: int) -> str:
        """Return a bottleneck block; the shortcut has a convolution where sizes change."""
        out = width * EXPANSION
        x = self.layer(source, f"{name}_1", (channels, width, 1))
        x = self.layer(x, f"{name}_2", (width, width, 3), stride)
        x = self.layer(x, f"{name}_3", (width, out, 1), relu=False)
        self.values[f"{name}_3_s"] *= np.float32(0.25)  # keeps activations of random weights near 1
        same = stride == 1 and channels == out
        shortcut = source if same else self.layer(source, f"{name}_s", (channels, out, 1), stride, relu=False)
        self.ops.append(operator("Sum", [x, shortcut], [name]))
        self.ops.append(operator("Relu", [name], [name]))
        return name


def resnet50() -> tuple[NetDef, NetDef]:
    """Return the net ``data`` [N, 3, 224, 224] -> ``prob`` [N, 1000], and its init net."""
    build = _Builder()
    x = build.layer("data", "stem", (3, 64, 7), 2)
    build.ops.append(operator("MaxPool", [x], ["pool"], kernel=3, stride=2, pad=1))
    x, channels = "pool", 64
    for group, count in enumerate(BLOCKS):
        width = 64 << group
        for index in range(count):
            stride = 2 if group and not index else 1
            x = build.block(x, f"g{group}_{index}", channels, width, stride)
            channels = width * EXPANSION
    build.values["fc_w"] = (np.random.default_rng(1).standard_normal((CLASSES, channels)) * 0.01).astype(np.float32)
    build.values["fc_b"] = np.zeros(CLASSES, np.float32)
    build.ops.append(operator("AveragePool", [x], ["mean"], kernel=7, stride=1))
    build.ops.append(operator("FC", ["mean", "fc_w", "fc_b"], ["scores"]))
    build.ops.append(operator("Softmax", ["scores"], ["prob"]))
    net = NetDef(name="resnet50", op=build.ops, external_input=["data", *build.values], external_output=["prob"])
    return net, _fills(build.values)


def _fills(values: Arrays) -> NetDef:
    net = NetDef(name="init")
    for name, value in values.items():
        op = net.op.add(type="GivenTensorFill", output=[name])
        op.arg.add(name="shape", ints=value.shape)
        op.arg.add(name="values", floats=value.reshape(-1))
    return net


def torch_resnet(net: NetDef, init: NetDef, device: str) -> Any:
    """Return the same computation in PyTorch: a function of a tensor on the device."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - its usual name

    weights = {op.output[0]: torch.tensor(op.arg[1].floats).reshape(tuple(op.arg[0].ints)).to(device) for op in init.op}

    def run(data: Any) -> Any:
        blobs = {**weights, "data": data}
        for op in net.op:
            given = [blobs[name] for name in op.input]
            arg = {one.name: one.i for one in op.arg}
            if op.type == "Conv":
                made = F.conv2d(given[0], given[1], stride=arg["stride"], padding=arg["pad"])
            elif op.type == "SpatialBN":
                x, scale, bias, mean, variance = given
                made = F.batch_norm(x, mean, variance, scale, bias, eps=EPSILON)
            elif op.type == "MaxPool":
                made = F.max_pool2d(given[0], arg["kernel"], arg["stride"], arg["pad"])
            else:
                made = _SIMPLE[op.type](torch, given)
            blobs[op.output[0]] = made
        return blobs["prob"]

    return run


_SIMPLE: Final[dict[str, Any]] = {
    "Relu": lambda torch, given: torch.relu(given[0]),
    "Sum": lambda _, given: given[0] + given[1],
    "AveragePool": lambda torch, given: torch.nn.functional.avg_pool2d(given[0], 7),
    "FC": lambda torch, given: torch.addmm(given[2], given[0].flatten(1), given[1].T),
    "Softmax": lambda torch, given: torch.softmax(given[0], 1),
}
