"""Sizes that nodes compute."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from caffe2_frontend.dims.sizes import sizes

_HEAD = '<ir_version: 9, opset_import: ["" : 20]> g (float[N, 3, 5] x) => (int64[M] y)'
_KNOWN = "<int64[1] zero = {0}, int64[1] one = {1}, int64[2] two = {0, 2}, int64[1] three = {3}>"


def followed(nodes: str) -> list[int | str | None] | None:
    """Return the sizes in ``y``."""
    text = f"{_HEAD} {_KNOWN} {{ {nodes} }}"
    return sizes(ir.from_proto(onnx.parser.parse_model(text)).graph.outputs[0])


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Shape(x)", ["N", 3, 5]),
        ("y = Shape <start = 1> (x)", [3, 5]),
        ("s = Shape(x) y = Gather(s, two)", ["N", 5]),
        ("s = Shape(x) t = Gather(s, one) y = Concat <axis = 0> (t, s, two)", [3, "N", 3, 5, 0, 2]),
        ("s = Shape(x) y = Slice(s, one, three)", [3, 5]),
        ("s = Shape(x) t = Mul(one, one) y = Slice(s, t, one)", None),
        ("s = Shape(x) y = Mul(s, s)", None),
    ],
)
def test_sizes_are_followed_to_the_shapes(nodes: str, expected: list[int | str | None] | None) -> None:
    assert followed(nodes) == expected


def test_an_operand_that_is_read_twice_is_followed_once() -> None:
    steps = " ".join(f"t{i + 1} = Gather(t{i}, t{i})" for i in range(28))
    assert followed(f"t0 = Identity(zero) {steps} y = Identity(t28)") == [0]


def test_what_is_longer_than_sizes_is_not_followed() -> None:
    steps = " ".join(f"t{i + 1} = Concat <axis = 0> (t{i}, t{i})" for i in range(28))
    assert followed(f"t0 = Shape(x) {steps} y = Slice(t28, zero, one)") is None
