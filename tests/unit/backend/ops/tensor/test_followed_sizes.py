"""Sizes that a Reshape reads, followed to the nodes that compute them."""

from __future__ import annotations

from collections import Counter

import onnx
import onnx.parser
import pytest

from caffe2_backend import to_netdef

_LEVELS = 60


def reshaped(steps: str, last: str) -> onnx.ModelProto:
    head = '<ir_version: 9, opset_import: ["" : 20]> g (float[N, K] x) => (float[A, B] y)'
    known = "<int64[1] zero = {0}, int64[1] two = {2}, int64[2] both = {0, 1}>"
    nodes = f"t0 = Shape(x) {steps} y = Reshape <allowzero = 1> (x, {last})"
    return onnx.parser.parse_model(f"{head} {known} {{ {nodes} }}")


@pytest.mark.parametrize(
    ("level", "count"),
    [
        ("c{1} = Concat <axis = 0> (t{0}, t{0}) t{1} = Gather(c{1}, both)", _LEVELS),  # 2^60 ways to the Shape
        ("t{1} = Slice(t{0}, zero, two)", 1500),
    ],
)
def test_each_node_is_followed_once(level: str, count: int) -> None:
    steps = " ".join(level.format(i, i + 1) for i in range(count))
    operators = Counter(op.type for op in to_netdef(reshaped(steps, f"t{count}")).predict_net.op)
    assert operators.total() < 2 * count + 10
    assert not operators["Where"]  # of a shape that may hold a -1
