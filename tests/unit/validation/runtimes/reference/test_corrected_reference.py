"""Operators of the reference evaluator that this project replaces, against onnxruntime."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest

from caffe2_validation.runtimes import find_runtime


def agree(text: str, error: float = 0, opset: int = 20, **inputs: np.ndarray) -> None:  # type: ignore[type-arg] # of any type
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> {text}')
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


@pytest.mark.parametrize("opset", [10, 20])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [[0, -1, 0, -2], [-1, 2, 1, -2], [1, 1, 2, 0], [-3, 0, 0, 0]])
def test_pads_that_remove_elements(pads: list[int], mode: str, opset: int) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    if opset == 10:
        body = f'{{ y = Pad<mode = "{mode}", pads = {pads}, value = 7.0>(x) }}'
        agree(f"g (float[4, 5] x) => (float[A, B] y) {body}", opset=opset, x=x)
        return
    value = ", v" if mode == "constant" else ""
    text = f'(float[4, 5] x, int64[4] p, float v) => (float[A, B] y) {{ y = Pad<mode = "{mode}">(x, p{value}) }}'
    agree(f"g {text}", x=x, p=np.array(pads), v=np.array(7, np.float32))


def test_pads_of_some_axes() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    text = "(float[2, 3, 4] x, int64[4] p, int64[2] a) => (float[A, B, C] y) { y = Pad(x, p, , a) }"
    agree(f"g {text}", x=x, p=np.array([-1, 1, 0, -2]), a=np.array([-1, 1]))


@pytest.mark.parametrize(
    ("spec", "groups"),
    [
        ("", 1),
        ("strides = [2, 3], pads = [1, 0, 2, 1]", 1),
        ("strides = [2, 2], dilations = [2, 1], output_padding = [1, 0]", 1),
        ("strides = [2, 2], group = 2, pads = [1, 1, 1, 1]", 2),
        ('strides = [2, 2], auto_pad = "SAME_UPPER"', 1),
        ('strides = [2, 2], auto_pad = "SAME_LOWER", group = 4', 4),
        ('strides = [2, 2], auto_pad = "VALID"', 1),
    ],
)
def test_conv_transpose(spec: str, groups: int) -> None:
    random = np.random.default_rng(1)
    x, w = random.standard_normal((2, 4, 5, 6)), random.standard_normal((4, 3, 3, 2))
    b = random.standard_normal(3 * groups)
    text = (
        f"float[4, 3, 3, 2] w, float[{3 * groups}] b) => (float[A, B, C, D] y) {{ y = ConvTranspose<{spec}>(x, w, b) }}"
    )
    agree(f"g (float[2, 4, 5, 6] x, {text}".replace("<>", ""), 1e-5, x=x.astype(np.float32), w=w.astype(np.float32),
          b=b.astype(np.float32))  # fmt: skip


def test_conv_transpose_of_an_empty_batch() -> None:
    x, w = np.ones((0, 2, 3, 3), np.float32), np.ones((2, 3, 2, 2), np.float32)
    text = "(float[N, 2, 3, 3] x, float[2, 3, 2, 2] w) => (float[A, B, C, D] y) { y = ConvTranspose(x, w) }"
    agree(f"g {text}", x=x, w=w)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn(size: int) -> None:
    x = np.random.default_rng(1).standard_normal((2, 6, 3, 4)).astype(np.float32)
    text = f"{{ y = LRN<size = {size}, alpha = 0.5, beta = 0.75, bias = 2.0>(x) }}"
    agree(f"g (float[2, 6, 3, 4] x) => (float[2, 6, 3, 4] y) {text}", 1e-5, x=x)


def test_conv_transpose_of_one_axis() -> None:
    random = np.random.default_rng(1)
    x, w = random.standard_normal((1, 2, 7)).astype(np.float32), random.standard_normal((2, 3, 4)).astype(np.float32)
    agree("g (float[1, 2, 7] x, float[2, 3, 4] w) => (float[A, B, C] y) { y = ConvTranspose<strides = [3]>(x, w) }",
          1e-5, x=x, w=w)  # fmt: skip


def test_a_large_conv_transpose_takes_seconds() -> None:
    x, w = np.ones((1, 8, 400, 400), np.float32), np.ones((8, 8, 4, 4), np.float32)
    start = time.process_time()
    agree("g (float[1, 8, 400, 400] x, float[8, 8, 4, 4] w) => (float[A, B, C, D] y)"
          "{ y = ConvTranspose<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w) }", 1e-5, x=x, w=w)  # fmt: skip
    assert time.process_time() - start < 30  # 5 million sums in Python take minutes


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("shape", ["", "2", "1, 2", "2, 3"])
def test_loops_stack_what_each_iteration_makes(shape: str, trips: int) -> None:
    dims = [int(size) for size in shape.split(",") if size]
    kind = f"float[{shape}]" if shape else "float"
    rows = f"float[{', '.join(['T', *map(str, dims)])}]"
    text = (
        f"g (int64 n, {kind} x) => ({kind} last, {rows} all) {{ last, all = Loop(n, , x) <body = b (int64 i, bool c, "
        f"{kind} s) => (bool d, {kind} t, {kind} r) {{ d = Identity(c) f = Cast<to = 1>(i) t = Add(s, f) r = Neg(t) }}>"
        " }"
    )
    agree(text, n=np.array(trips), x=np.arange(np.prod(dims, dtype=int), dtype=np.float32).reshape(dims))


def test_a_loop_that_ends_itself() -> None:
    text = (
        "g (bool start, float limit) => (float last, float[T] all) { zero = Constant<value = float {0.0}>()"
        "one = Constant<value = float {1.0}>() last, all = Loop(, start, zero) <body = b (int64 i, bool c, float s) => "
        "(bool d, float t, float r) { t = Add(s, one) d = Less(t, limit) r = Mul(t, limit) }> }"
    )
    for start in (True, False):
        agree(text, start=np.array(start), limit=np.array(4, np.float32))
