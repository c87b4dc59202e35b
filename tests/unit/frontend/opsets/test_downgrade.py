"""Nodes of opset 20 in earlier opsets: the same results, or a refusal by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.netdef.parameters import Array
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.opsets import InexpressibleError, downgrade

RANDOM: Final = np.random.default_rng(7)
X: Final = RANDOM.standard_normal((3, 4)).astype(np.float32)
TIES: Final = np.array([[-2.5, -1.5, -0.5, 0.5], [1.5, 2.5, 2.4999, -0.3], [np.inf, -np.inf, 7, 0]], np.float32)
NAN: Final = np.array([[1, np.nan, 2, -1], [np.nan, 0, 0, 1], [3, -3, np.inf, -np.inf]], np.float32)
INTS: Final = np.array([[5, -3, 2**40, 0], [7, 7, -(2**40), 1], [-1, 2, 3, 4]], np.int64)
BYTES: Final = np.array([[0, 255, 3, 4], [9, 9, 1, 200], [7, 6, 5, 4]], np.uint8)
IMAGE: Final = RANDOM.standard_normal((1, 2, 6, 6)).astype(np.float32)

# name: (graph in ONNX's text form, inputs); the graph's opset is 20.
CASES: Final[Mapping[str, tuple[str, dict[str, Array]]]] = {
    "shape": ("(float[N,M] x) => (int64[1] y) {y = Shape <start = -1> (x)}", {"x": X}),
    "reshape": (
        "(float[N,M] x, int64[2] s) => (float[A,B] y) {y = Reshape <allowzero = 1> (x, s)}",
        {"x": X, "s": np.array([-1, 6])},
    ),
    "reshape_empty": (
        "(float[N,M] x, int64[3] s) => (float[A,B,C] y) {y = Reshape <allowzero = 1> (x, s)}",
        {"x": np.zeros((0, 4), np.float32), "s": np.array([4, 0, 2])},
    ),
    "reshape_empty_rest": (
        "(float[N,M] x, int64[2] s) => (float[A,B] y) {y = Reshape <allowzero = 1> (x, s)}",
        {"x": np.zeros((0, 4), np.float32), "s": np.array([-1, 2])},
    ),
    "squeeze": (
        ("(float[N,1,M] x) => (float[M,N,1] y) <int64[1] a = {-2}, int64[1] b = {-1}> "
        "{s = Squeeze (x, a) t = Transpose (s) y = Unsqueeze (t, b)}"),
        {"x": X[:, None]},
    ),
    "reduce": (
        ("(float[N,M] x) => (float[N] y, float z, float[N,M] w) <int64[1] a = {-1}, int64[0] e = {}> "
        "{y = ReduceSum <keepdims = 0> (x, a) z = ReduceMax <keepdims = 0> (x) "
        "w = ReduceMean <noop_with_empty_axes = 1> (x, e)}"),
        {"x": X},
    ),
    "reduce_bytes": (
        "(uint8[N,M] x) => (uint8[M] y) <int64[1] a = {0}> {y = ReduceMax <keepdims = 0> (x, a)}",
        {"x": BYTES},
    ),
    "split": (
        "(float[N,M] x) => (float[N,2] y, float[N,2] z) {y, z = Split <axis = -1, num_outputs = 2> (x)}",
        {"x": X},
    ),
    "split_uneven": (
        "(float[3,M] x) => (float[A,M] y, float[B,M] z) {y, z = Split <num_outputs = 2> (x)}",
        {"x": X},
    ),
    "split_at_run_time": (
        "(float[N,M] x, int64[2] s) => (float[A,M] y, float[B,M] z) {y, z = Split (x, s)}",
        {"x": X, "s": np.array([1, 2])},
    ),
    "slice": (
        ("(float[N,M] x, int64[2] s, int64[2] e) => (float[A,B] y) <int64[2] a = {0, -1}, int64[2] p = {-1, 2}> "
        "{y = Slice (x, s, e, a, p)}"),
        {"x": X, "s": np.array([-1, -9]), "e": np.array([-9, 9])},
    ),
    "slice_constant": (
        ("(float[N,M] x) => (float[A,B] y) <int64[1] s = {1}, int64[1] e = {9}, int64[1] a = {-1}> "
        "{y = Slice (x, s, e, a)}"),
        {"x": X},
    ),
    "range": (
        ("(int64 a, int64 b, float f, float g) => (int64[N] y, int64[M] z, float[K] w) "
        "<int64 s = {3}, int64 m = {-2}, float d = {0.3}> "
        "{y = Range (a, b, s) z = Range (b, a, m) w = Range (f, g, d)}"),
        {"a": np.array(-2), "b": np.array(9), "f": np.array(0.5, np.float32), "g": np.array(2.0, np.float32)},
    ),
    "range_empty": (
        "(int64 a, int64 b) => (int64[N] y) <int64 s = {2}> {y = Range (a, b, s)}",
        {"a": np.array(5), "b": np.array(-4)},
    ),
    "pad": (
        ("(float[N,M] x, int64[2] p) => (float[N,K] y) <float v = {1.5}, int64[1] a = {-1}> "
        '{y = Pad <mode = "constant"> (x, p, v, a)}'),
        {"x": X, "p": np.array([1, 2])},
    ),
    "pad_constant": (
        '(float[N,M] x) => (float[N,K] y) <int64[4] p = {0, 1, 0, 2}> {y = Pad <mode = "edge"> (x, p)}',
        {"x": X},
    ),
    "gather_texts": (
        "(string[N,M] x, int64[A,1] i) => (string[A,M] y) {y = GatherND (x, i)}",
        {"x": np.array([["a", "b"], ["c", "d"], ["e", "f"]], object), "i": np.array([[-1], [0]])},
    ),
    "cumsum_of_no_rows": (
        ("(float[N,M,K] x) => (float[N,M,K] y, float[N,M,K] z) <int64 a = {1}, int64 b = {-1}> "
        "{y = CumSum (x, a) z = CumSum (y, b)}"),
        {"x": np.zeros((0, 2, 3), np.float32)},
    ),
    "cumsum_from_the_left": (
        ("(float[N,M,K] x) => (float[N,M,K] y, float[N,M,K] z, float[N,M,K] w) <int64 a = {1}, int64 b = {0}> "
        "{y = CumSum (x, a) z = CumSum <reverse = 1> (x, a) w = CumSum <exclusive = 1> (y, b)}"),
        {"x": RANDOM.standard_normal((2, 4, 3)).astype(np.float32)},
    ),
    "reverse_sequence": (
        "(float[T,N,D] x, int64[N] n) => (float[T,N,D] y) {y = ReverseSequence <batch_axis = 1, time_axis = 0> (x, n)}",
        {"x": RANDOM.standard_normal((4, 3, 2)).astype(np.float32), "n": np.array([4, 1, 2])},
    ),
    "gather_elements": (
        "(float[N,M] x, int64[A,M] i) => (float[A,M] y) {y = GatherElements <axis = 0> (x, i)}",
        {"x": X, "i": np.array([[0, -1, 2, 1], [1, 1, 0, -3]])},
    ),
    "gather_nd": (
        "(float[N,M] x, int64[A,2] i) => (float[A] y) {y = GatherND (x, i)}",
        {"x": X, "i": np.array([[0, 1], [-1, -1], [2, 0]])},
    ),
    "gather_nd_batches": (
        "(float[N,M,K] x, int64[N,A,1] i) => (float[N,A,K] y) {y = GatherND <batch_dims = 1> (x, i)}",
        {"x": RANDOM.standard_normal((2, 3, 4)).astype(np.float32), "i": np.array([[[0], [2]], [[1], [1]]])},
    ),
    "scatter": (
        "(float[N,M] x, int64[A,M] i, float[A,M] u) => (float[N,M] y) {y = ScatterElements <axis = 0> (x, i, u)}",
        {"x": X, "i": np.array([[0, -1, 2, 1]]), "u": np.ones((1, 4), np.float32)},
    ),
    **{
        f"scatter_{how}": (
            ("(float[N,M] x, int64[A,M] i, float[A,M] u) => (float[N,M] y) "
            f'{{y = ScatterElements <axis = 0, reduction = "{how}"> (x, i, u)}}'),
            {"x": X, "i": np.array([[0, 1, 2, 1], [0, 1, 2, 0], [0, 2, 2, 1]]), "u": X[::-1].copy()},
        )
        for how in ("add", "mul", "max", "min")
    },
    "scatter_nd": (
        "(float[N,M] x, int64[A,1] i, float[A,M] u) => (float[N,M] y) {y = ScatterND (x, i, u)}",
        {"x": X, "i": np.array([[2], [0]]), "u": np.ones((2, 4), np.float32)},
    ),
    "scatter_nd_add": (
        '(float[N,M] x, int64[A,2] i, float[A] u) => (float[N,M] y) {y = ScatterND <reduction = "add"> (x, i, u)}',
        {"x": X, "i": np.array([[2, 1], [2, 1], [0, 3]]), "u": np.ones(3, np.float32)},
    ),
    "softmax": ("(float[N,M] x) => (float[N,M] y) {y = Softmax <axis = 0> (x)}", {"x": X}),
    "axes": (
        "(float[N,M] x) => (float[N,K] y, int64[N,1] z) {y = Concat <axis = -1> (x, x) z = ArgMax <axis = -1> (x)}",
        {"x": X},
    ),
    "top_k": (
        "(float[N,M] x) => (float[N,2] v, int64[N,2] i) <int64[1] k = {2}> {v, i = TopK <largest = 0> (x, k)}",
        {"x": X},
    ),
    "cumsum": (
        ("(float[N,M] x) => (float[N,M] y, float[N,M] z) <int64 a = {-1}, int64 b = {0}> "
        "{y = CumSum <exclusive = 1> (x, a) z = CumSum <reverse = 1> (x, b)}"),
        {"x": X},
    ),
    "is_inf": ("(float[N,M] x) => (bool[N,M] y) {y = IsInf <detect_negative = 0> (x)}", {"x": NAN}),
    "compare": (
        ("(float[N,M] x, float[M] z) => (bool[N,M] a, bool[N,M] b, bool[N,M] c) "
        "{a = GreaterOrEqual (x, z) b = LessOrEqual (x, z) c = Equal (x, z)}"),
        {"x": NAN, "z": np.array([1, np.nan, 2, -1], np.float32)},
    ),
    "extrema": (
        ("(int64[N,M] x, int64[M] z) => (int64[N,M] a, int64[N,M] b, int64[N,M] c) <int64 l = {-2}, int64 h = {5}> "
        "{a = Max (x, z) b = Min (x, z) c = Clip (x, l, h)}"),
        {"x": INTS, "z": np.array([0, 2**41, -5, 1])},
    ),
    "clip": (
        ("(float[N,M] x, float h) => (float[N,M] a, float[N,M] b) <float l = {-0.5}> "
        "{a = Clip (x, l) b = Clip (x, l, h)}"),
        {"x": X, "h": np.array(0.25, np.float32)},
    ),
    "relu": ("(int32[N,M] x) => (int32[N,M] y) {y = Relu (x)}", {"x": INTS.astype(np.int32)}),
    "add_bytes": ("(uint8[N,M] x) => (uint8[N,M] y) {y = Add (x, x)}", {"x": BYTES}),
    "pow": (
        "(float[N,M] x, int64 e) => (float[N,M] y) {y = Pow (x, e)}",
        {"x": X, "e": np.array(3)},
    ),
    "mod": (
        "(int64[N,M] x, int64 d) => (int64[N,M] y, int64[N,M] z) {y = Mod (x, d) z = Mod <fmod = 1> (x, d)}",
        {"x": INTS, "d": np.array(-3)},
    ),
    "round": ("(float[N,M] x) => (float[N,M] y) {y = Round (x)}", {"x": TIES[:2]}),
    "shift": (
        ("(uint8[N,M] x) => (uint8[N,M] y, uint8[N,M] z) <uint8 n = {2}> "
        '{y = BitShift <direction = "LEFT"> (x, n) z = BitShift <direction = "RIGHT"> (x, n)}'),
        {"x": BYTES},
    ),
    "activations": (
        ("(float[N,M] x) => (float[N,M] a, float[N,M] b, float[N,M] c, float[N,M] d) "
        '{a = Gelu (x) b = Gelu <approximate = "tanh"> (x) c = Mish (x) d = ThresholdedRelu <alpha = 0.5> (x)}'),
        {"x": X},
    ),
    "layer_norm": (
        "(float[N,M] x, float[M] s, float[M] b) => (float[N,M] y) {y = LayerNormalization (x, s, b)}",
        {"x": X, "s": X[0], "b": X[1]},
    ),
    "gemm": ("(float[N,M] x, float[K,M] w) => (float[N,K] y) {y = Gemm <transB = 1> (x, w)}", {"x": X, "w": X}),
    "dropout": (
        "(float[N,M] x) => (float[N,M] y) <float r = {0.5}, bool t = {0}> {y = Dropout (x, r, t)}",
        {"x": X},
    ),
    "max_pool": (
        "(uint8[1,2,6,6] x) => (uint8[1,2,3,3] y) {y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)}",
        {"x": (IMAGE * 50 + 128).astype(np.uint8)},
    ),
    "resize": (
        ('(float[1,2,6,6] x) => (float[1,2,12,12] y) <float[4] s = {1, 1, 2, 2}> {y = Resize <mode = "nearest", '
        'coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , s)}'),
        {"x": IMAGE},
    ),
    "branches": (
        ("(float[N,M] x, bool c) => (float[N] y) {y = If (c) <"
        "then_branch = t () => (float[N] a) <int64[1] e = {1}> {a = ReduceMax <keepdims = 0> (x, e)}, "
        "else_branch = o () => (float[N] b) <int64[1] e2 = {1}> {b = ReduceMin <keepdims = 0> (x, e2)}>}"),
        {"x": X, "c": np.zeros((), bool)},
    ),
    "branches_of_two_shapes": (
        ("(float[N,4] x, bool c) => (float[A,B] y, float[C,D] z) {r = If (c) <"
        "then_branch = t () => (float[N,4] a) {a = Neg (x)}, "
        "else_branch = o () => (float[1,2] b) <int64[2] s = {1, 2}> {b = ConstantOfShape (s)}> "
        "n = Shape (r) y = ConstantOfShape (n) z = Abs (r)}"),
        {"x": X, "c": np.ones((), bool)},
    ),
    "branches_of_two_shapes_else": (
        ("(float[N,4] x, bool c) => (float[A,B] y, float[C,D] z) {r = If (c) <"
        "then_branch = t () => (float[N,4] a) {a = Neg (x)}, "
        "else_branch = o () => (float[1,2] b) <int64[2] s = {1, 2}> {b = ConstantOfShape (s)}> "
        "n = Shape (r) y = ConstantOfShape (n) z = Abs (r)}"),
        {"x": X, "c": np.zeros((), bool)},
    ),
}  # fmt: skip
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    "unique": ("(float[N] x) => (float[M] y) {y = Unique (x)}", "Unique ('y'): the operator came with opset 11"),
    "half_pixel": (
        (
            "(float[1,2,6,6] x) => (float[1,2,12,12] y) <float[4] s = {1, 1, 2, 2}> "
            '{y = Resize <mode = "linear"> (x, , s)}'
        ),
        "Resize ('y'): it reads pixels by half_pixel",
    ),
    "axes": (
        "(float[N,M] x, int64[1] a) => (float[A] y) {y = ReduceMax <keepdims = 0> (x, a)}",
        "ReduceMax ('y'): its axes are computed at run time",
    ),
}


def model_of(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> g {text}')
    return infer_shapes(model)


def run(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(Session(model.SerializeToString(), threads=1).run(inputs))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("opset", [9, 10, 11, 12, 13, 14, 15, 17, 18, 19])
def test_the_results_are_the_same(name: str, opset: int) -> None:
    text, inputs = CASES[name]
    original = model_of(text)
    model = ir.from_proto(original)
    downgrade(model, opset)
    result = ir.to_proto(model)
    assert [(o.domain, o.version) for o in result.opset_import] == [("", opset)]
    onnx.checker.check_model(result, full_check=True)
    assert [value.name for value in result.graph.output] == [value.name for value in original.graph.output]
    actual = run(result, inputs)
    for output, expected in run(original, inputs).items():
        assert actual[output].dtype == expected.dtype, output
        if expected.dtype == object:
            np.testing.assert_array_equal(actual[output], expected, err_msg=output)
        else:
            np.testing.assert_allclose(actual[output], expected, rtol=1e-5, atol=1e-6, err_msg=output)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_by_name(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(InexpressibleError) as caught:
        downgrade(ir.from_proto(model_of(text)), 9)
    assert str(caught.value) == reason
