"""Operators of the reference evaluator that this project replaces, against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from caffe2_backend.validation.runtimes import find_runtime


def agree(text: str, error: float = 0, **inputs: np.ndarray) -> None:  # type: ignore[type-arg] # of any type
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {text}')
    one, other = (find_runtime(name).load(model).run(inputs) for name in ("onnxruntime-cpu", "onnx-reference"))
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=error, atol=error)


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("side", [28, 29])
@pytest.mark.parametrize(
    "spec",
    [
        "",
        "strides = [1, 1], pads = [1, 1, 1, 1], ",
        "strides = [2, 2], pads = [0, 1, 1, 0], ",
        "strides = [3, 2], dilations = [2, 1], ",
    ],
)
def test_max_pool(spec: str, side: int, ceil: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, side, side)).astype(np.float32)
    agree(
        f"g (float[2, 3, {side}, {side}] x) => (float[A, B, C, D] y)"
        f"{{ y = MaxPool<kernel_shape = [3, 3], {spec}ceil_mode = {ceil}>(x) }}",
        x=x,
    )


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize(
    "spec",
    [
        "",
        "strides = [2, 2], pads = [0, 1, 1, 0], ",
        "strides = [3, 2], pads = [1, 1, 1, 1], dilations = [2, 1], ",
    ],
)
def test_average_pool(spec: str, include: int, ceil: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 14, 15)).astype(np.float32)
    agree(
        "g (float[2, 3, 14, 15] x) => (float[A, B, C, D] y)"
        f"{{ y = AveragePool<kernel_shape = [3, 3], {spec}ceil_mode = {ceil}, count_include_pad = {include}>(x) }}",
        1e-6, x=x,
    )  # fmt: skip


def test_gather_elements_of_a_long_axis() -> None:
    random = np.random.default_rng(1)
    x, i = random.standard_normal((70, 3)).astype(np.float32), random.integers(0, 70, (90, 2))
    agree("g (float[70, 3] x, int64[90, 2] i) => (float[90, 2] y) { y = GatherElements<axis = 0>(x, i) }", x=x, i=i)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_of_a_depth_of_rank_1(axis: int) -> None:
    text = f"{{ y = OneHot<axis = {axis}>(i, d, v) }}"
    agree(f"g (int64[2, 3] i, int64[1] d, float[2] v) => (float[A, B, C] y) {text}", i=np.array([[0, 3, 1], [2, 4, 0]]),
          d=np.array([4]), v=np.array([0, 2], np.float32))  # fmt: skip


@pytest.mark.parametrize("backward", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scans_of_other_axes_and_directions(axis: int, backward: int) -> None:
    shape = [4, 3, 2]
    del shape[axis]
    sizes = ", ".join(map(str, shape))
    result = ", ".join(map(str, [*shape[:1], (4, 3, 2)[axis], *shape[1:]]))
    agree(
        f"g (float[{sizes}] s, float[4, 3, 2] x, float[4, 3, 2] z) => (float[{sizes}] last, float[{result}] y) {{"
        f"last, y = Scan<num_scan_inputs = 2, scan_input_axes = [{axis}, {axis}], scan_input_directions = "
        f"[{backward}, 0], scan_output_axes = [1], scan_output_directions = [{1 - backward}], body = step "
        f"(float[{sizes}] a, float[{sizes}] b, float[{sizes}] c) => (float[{sizes}] d, float[{sizes}] e)"
        "{ p = Mul(a, b) d = Add(p, c) e = Identity(d) }>"
        "(s, x, z) }",
        s=np.random.default_rng(0).standard_normal(shape).astype(np.float32),
        x=np.random.default_rng(1).standard_normal((4, 3, 2)).astype(np.float32),
        z=np.random.default_rng(2).standard_normal((4, 3, 2)).astype(np.float32),
    )
