"""Operators that onnxruntime's optimizer writes, through their definitions, against onnxruntime's own kernels.

Modules: activations, layer_norm, matrices, quantized.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.random_values import RandomValues
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge import ConversionError

N, S, D, H = 2, 5, 8, 4

FLOATS: dict[str, tuple[str, str]] = {
    "gelu": ("float[A,B] x", "com.microsoft.Gelu (x)"),
    "bias_gelu": ("float[A,8] x, float[8] b", "com.microsoft.BiasGelu (x, b)"),
    "fast_gelu": ("float[A,8] x", "com.microsoft.FastGelu (x)"),
    "fast_gelu_bias": ("float[A,8] x, float[8] b", "com.microsoft.FastGelu (x, b)"),
    "quick_gelu": ("float[A,B] x", "com.microsoft.QuickGelu <alpha = 1.5> (x)"),
    "fused_conv": (
        "float[N,3,6,6] i, float[4,3,3,3] w, float[4] c",
        'com.microsoft.FusedConv <activation = "LeakyRelu", activation_params = [0.25], pads = [1, 1, 1, 1]> (i, w, c)',
    ),
    "fused_conv_clip": (
        "float[N,3,6,6] i, float[4,3,3,3] w, float[4] c",
        'com.microsoft.FusedConv <activation = "Clip", activation_params = [0.0, 1.5], strides = [2, 2]> (i, w, c)',
    ),
    "fused_conv_sum": (
        "float[N,3,6,6] i, float[4,3,3,3] w, float[4] c, float[N,4,4,4] z",
        'com.microsoft.FusedConv <activation = "Relu"> (i, w, c, z)',
    ),
    "fused_gemm": (
        "float[A,8] x, float[3,8] g, float[3] h",
        'com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.3, transB = 1, alpha = 0.5> (x, g, h)',
    ),
    "fused_mat_mul": (
        "float[N,S,8] y, float[N,S,8] v", "com.microsoft.FusedMatMul <transB = 1, alpha = 0.25> (y, v)",
    ),
    "fused_mat_mul_left": ("float[N,S,8] y, float[N,S,8] v", "com.microsoft.FusedMatMul <transA = 1> (y, v)"),
    "fused_mat_mul_batch": (
        "float[N,S,8] y, float[N,S,8] v",
        "com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1, transB = 1> (y, v)",
    ),
    "fused_mat_mul_batch_left": (
        "float[N,S,8] y, float[N,S,8] v",
        "com.microsoft.FusedMatMul <transBatchA = 1, transA = 1, transBatchB = 1> (y, v)",
    ),
    "simplified": ("float[N,S,8] y, float[8] b", "SimplifiedLayerNormalization <epsilon = 0.01> (y, b)"),
    "skip": ("float[N,S,8] y, float[N,S,8] v, float[8] b", "com.microsoft.SkipLayerNormalization (y, v, b)"),
    "skip_all": (
        "float[N,S,8] y, float[N,S,8] v, float[8] b, float[8] b2, float[8] b3",
        "com.microsoft.SkipLayerNormalization <epsilon = 0.001> (y, v, b, b2, b3)",
    ),
    "skip_simplified": (
        "float[N,S,8] y, float[N,S,8] v, float[8] b, float[8] b2",
        "com.microsoft.SkipSimplifiedLayerNormalization (y, v, b, b2)",
    ),
    "attention": (
        "float[N,S,8] y, float[8,24] wa, float[24] ba", "com.microsoft.Attention <num_heads = 4> (y, wa, ba)",
    ),
    "attention_lengths": (
        "float[N,S,8] y, float[8,24] wa, float[24] ba, int32[N] lens",
        "com.microsoft.Attention <num_heads = 4> (y, wa, ba, lens)",
    ),
    "attention_mask": (
        "float[N,S,8] y, float[8,24] wa, float[24] ba, int32[N,S] mask",
        "com.microsoft.Attention <num_heads = 2, unidirectional = 1, scale = 0.7> (y, wa, ba, mask)",
    ),
    "multi_head": (
        "float[N,S,8] y, float[N,T,8] k, float[N,T,8] kv, float[24] ba",
        "com.microsoft.MultiHeadAttention <num_heads = 4> (y, k, kv, ba)",
    ),
    "multi_head_mask": (
        "float[N,S,8] y, float[N,S,8] v, int32[N,S] mask",
        "com.microsoft.MultiHeadAttention <num_heads = 4> (y, v, v, , mask)",
    ),
    "attention_bounds": (
        "float[2,5,8] y, float[8,24] wa, float[24] ba, int32[4] bounds",
        "com.microsoft.Attention <num_heads = 4> (y, wa, ba, bounds)",
    ),
    "attention_sizes": (
        "float[N,S,8] y, float[8,24] wa, float[24] ba",
        "com.microsoft.Attention <num_heads = 2, qkv_hidden_sizes = [10, 10, 4]> (y, wa, ba)",
    ),
    "multi_head_of_heads": (
        "float[N,S,8] y, float[N,4,T,2] kh, float[N,4,T,2] vh, float[24] ba",
        "com.microsoft.MultiHeadAttention <num_heads = 4> (y, kh, vh, ba)",
    ),
    "expand_dims": ("float[A,B] x", "com.microsoft.ExpandDims (x, axis)"),
}  # fmt: skip
SCALES = (
    "<float s1 = {0.02}, float s2 = {0.03}, float s3 = {0.05}, uint8 z1 = {120}, uint8 z2 = {130}, uint8 z3 = {10}, "
    "float s4 = {0.002}, uint8 z4 = {0}>"
)
QUANTIZED: dict[str, tuple[str, str, str]] = {
    "add": ("uint8[A,B] a, uint8[A,B] b", "uint8 r", "com.microsoft.QLinearAdd (a, s1, z1, b, s2, z2, s3, z3)"),
    "mul": ("uint8[A,B] a, uint8[A,B] b", "uint8 r", "com.microsoft.QLinearMul (a, s1, z1, b, s2, z2, s3, z3)"),
    "sigmoid": ("uint8[A,B] a", "uint8 r", "com.microsoft.QLinearSigmoid (a, s1, z1, s3, z3)"),
    "leaky": ("uint8[A,B] a", "uint8 r", "com.microsoft.QLinearLeakyRelu <alpha = 0.2> (a, s1, z1, s3, z3)"),
    "pool": (
        "uint8[N,C,7,7] m", "uint8 r",
        "com.microsoft.QLinearAveragePool <kernel_shape = [3, 3], strides = [2, 2]> (m, s1, z1, s3, z3)",
    ),
    "global_pool": ("uint8[N,C,7,7] m", "uint8 r", "com.microsoft.QLinearGlobalAveragePool (m, s1, z1, s3, z3)"),
    "softmax": (
        "uint8[A,6] a", "uint8 r", "com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (a, s1, z1, s4, z4)",
    ),
    "early softmax": (
        "uint8[N,C,7,7] m", "uint8 r", "com.microsoft.QLinearSoftmax <axis = 1, opset = 11> (m, s1, z1, s4, z4)",
    ),
    "pool of last channels": (
        "uint8[N,3,7,7] m", "uint8 r",
        "com.microsoft.QLinearAveragePool <kernel_shape = [2, 3], channels_last = 1> (m, s1, z1, s3, z3)",
    ),
    "global pool of last channels": (
        "uint8[N,3,7,7] m", "uint8 r",
        "com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (m, s1, z1, s3, z3)",
    ),
    "attention": (
        "uint8[N,5,8] u, uint8[8,24] v, float[24] ba", "float r",
        "com.microsoft.QAttention <num_heads = 4> (u, v, ba, s1, s2, , z1, z2)",
    ),
    "attention with a mask": (
        "uint8[N,5,8] u, uint8[8,24] v, float[24] ba, int32[N,5] mask", "float r",
        "com.microsoft.QAttention <num_heads = 2, unidirectional = 1> (u, v, ba, s1, s2, mask, z1, z2)",
    ),
    "concat": (
        "uint8[A,B] a, uint8[A,B] b", "uint8 r",
        "com.microsoft.QLinearConcat <axis = 1> (s3, z3, a, s1, z1, b, s2, z2)",
    ),
    "where": (
        "bool[B] p, uint8[A,B] a, uint8[A,B] b", "uint8 r",
        "com.microsoft.QLinearWhere (p, a, s1, z1, b, s2, z2, s3, z3)",
    ),
    "gemm": ("uint8[A,6] a, uint8[6,B] b", "uint8 r", "com.microsoft.QGemm (a, s1, z1, b, s2, z2, , s3, z3)"),
    "gemm_bias": (
        "uint8[A,6] a, uint8[B,6] c, int32[B] d", "float r",
        "com.microsoft.QGemm <transB = 1, alpha = 0.5> (a, s1, z1, c, s2, z2, d)",
    ),
    "dynamic": (
        "float[A,6] x, uint8[6,B] b", "float r", "com.microsoft.DynamicQuantizeMatMul (x, b, s2, z2)",
    ),
    "to_float": (
        "uint8[A,6] a, uint8[6,B] b", "float r", "com.microsoft.MatMulIntegerToFloat (a, b, s1, s2, z1, z2)",
    ),
    "linear": ("uint8[A,6] a", "float r", "com.microsoft.DequantizeLinear (a, s1, z1)"),
}  # fmt: skip


def feeds(random: RandomValues, inputs: str) -> dict[str, Any]:
    sizes = {
        "x": (3, D), "b": (D,), "b2": (D,), "b3": (D,), "i": (N, 3, 6, 6), "w": (4, 3, 3, 3), "c": (4,),
        "z": (N, 4, 4, 4), "g": (3, D), "h": (3,), "y": (N, S, D), "v": (N, S, D), "wa": (D, 3 * D), "ba": (3 * D,),
        "k": (N, 3, D), "kv": (N, 3, D), "kh": (N, 4, 3, 2), "vh": (N, 4, 3, 2),
    }  # fmt: skip
    made: dict[str, Any] = {name: random.normal(*size) for name, size in sizes.items()}
    made["lens"] = np.array([S, 3], np.int32)
    made["bounds"] = np.array([S, 4, 0, 2], np.int32)
    made["mask"] = np.array([[1] * S, [1, 1, 1, 0, 0]], np.int32)
    names = [declared.split()[-1] for declared in inputs.split(", ")]
    return {name: made[name] for name in names}


def bytes_of(random: RandomValues, inputs: str) -> dict[str, Any]:
    sizes = {"a": (4, 6), "b": (4, 6), "c": (3, 6), "m": (N, 3, 7, 7), "u": (N, S, D), "v": (D, 3 * D)}
    generator = random.generator
    made: dict[str, Any] = {name: generator.integers(0, 256, size).astype(np.uint8) for name, size in sizes.items()}
    made["d"] = generator.integers(-1000, 1000, 3).astype(np.int32)
    made["x"], made["ba"] = random.normal(4, 6), random.normal(3 * D)
    made["mask"] = np.array([[1] * S, [1, 1, 1, 0, 0]], np.int32)
    made["p"] = np.array([True, False, False, True, True, False])
    if "[6,B] b" in inputs:
        made["b"] = generator.integers(0, 256, (6, 3)).astype(np.uint8)
    names = [declared.split()[-1] for declared in inputs.split(", ")]
    return {name: made[name] for name in names}


def model_of(inputs: str, outputs: str, body: str, head: str = "") -> onnx.ModelProto:
    opsets = '"": 17, "com.microsoft": 1'
    return parser.parse_model(
        f"<ir_version: 10, opset_import: [{opsets}]> g ({inputs}) => ({outputs}) {head} {{ {body} }}"
    )


def check_here(model: onnx.ModelProto, feed: dict[str, Any], step: float = 0) -> None:
    """Check that this project's runtime on the net of Caffe2's operators gives what onnxruntime's kernel gives."""
    net = to_netdef(model)
    assert not any(op.domain for op in net.predict_net.op)
    expected = OnnxSession(model.SerializeToString()).run_values(feed)
    for wanted, value in zip(expected, Predictor(net).run(feed).values(), strict=True):
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype == np.uint8:
            assert np.abs(value.astype(int) - wanted.astype(int)).max() <= step
        else:
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


HEAD = "<int32 axis = {1}>"


@pytest.mark.parametrize("name", FLOATS)
def test_fused_operators(name: str, random: RandomValues) -> None:
    inputs, body = FLOATS[name]
    head = HEAD if "axis)" in body else ""
    check_here(model_of(inputs, "float r", f"r = {body}", head), feeds(random, inputs))


@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_operators(name: str, random: RandomValues) -> None:
    inputs, outputs, body = QUANTIZED[name]
    # onnxruntime's kernels round through tables and fixed point: a step off, where a quotient is near a half.
    check_here(model_of(inputs, outputs, f"r = {body}", SCALES), bytes_of(random, inputs), step=1)


def test_all_outputs_of_a_skipped_normalization(random: RandomValues) -> None:
    inputs = "float[N,S,8] y, float[N,S,8] v, float[8] b"
    body = "r, , , t = com.microsoft.SkipLayerNormalization (y, v, b)"
    check_here(model_of(inputs, "float[N,S,8] r, float[N,S,8] t", body), feeds(random, inputs))


def test_all_outputs_of_a_skipped_simplified_normalization(random: RandomValues) -> None:
    inputs = "float[N,S,8] y, float[N,S,8] v, float[8] b"
    body = "r, m, i, t = com.microsoft.SkipSimplifiedLayerNormalization (y, v, b)"
    outputs = "float[N,S,8] r, float[N,S,1] m, float[N,S,1] i, float[N,S,8] t"
    check_here(model_of(inputs, outputs, body), feeds(random, inputs))


def test_attention_with_a_past(random: RandomValues) -> None:
    inputs = "float[N,S,8] y, float[8,24] wa, float[24] ba, float[2,N,4,P,2] past"
    body = "r, present = com.microsoft.Attention <num_heads = 4, unidirectional = 1> (y, wa, ba, , past)"
    feed = feeds(random, inputs.rsplit(", ", 1)[0]) | {"past": random.normal(2, N, 4, 3, 2)}
    check_here(model_of(inputs, "float[N,S,8] r, float[2,N,4,Q,2] present", body), feed)


@pytest.mark.parametrize("is_decoder", [True, False])
def test_scores_of_an_encoders_keys(random: RandomValues, *, is_decoder: bool) -> None:
    inputs = "float[N,S,8] y, float[N,4,3,2] kh, float[N,4,3,2] vh, float[24] ba"
    feed, more = feeds(random, inputs), ", int32[1] past, int32[1] beams, int32[N,B,M] cache"
    body = "r, , , q = com.microsoft.MultiHeadAttention <num_heads = 4> (y, kh, vh, ba)"
    if is_decoder:
        inputs += more
        feed |= {"y": feed["y"][:, :1], "past": np.array([1], np.int32), "beams": np.array([1], np.int32)}
        feed["cache"] = np.zeros((N, 1, 3), np.int32)
        operands = "y, kh, vh, , , , , past, beams, cache, ba"
        attributes = "num_heads = 4, output_qk = 1, past_present_share_buffer = 0"
        body = f"r, , , q = com.microsoft.DecoderMaskedMultiHeadAttention <{attributes}> ({operands})"
    check_here(model_of(inputs, "float[N,S,8] r, float[N,4,S,3] q", body), feed)


def test_declared_sizes_of_outputs_are_not_believed(random: RandomValues) -> None:
    """onnxruntime warns of them, and computes; the sizes of what reads these outputs follow from the operands."""
    inputs = "float[2,5,8] y, float[2,3,8] k, float[2,3,8] kv, float[2,4,3,2] kh, float[2,4,3,2] vh"
    body = "r, key, value = com.microsoft.MultiHeadAttention <num_heads = 4> (y, k, kv, , , , kh, vh)"
    feed = feeds(random, inputs)
    net = to_netdef(model_of(inputs, "float[2,5,8] r, float[2,6,6,2] key, float[2,24,1,2] value", body))
    expected = OnnxSession(model_of(inputs, "float r, float key, float value", body).SerializeToString()).run_values(
        feed
    )
    for wanted, value in zip(expected, Predictor(net).run(feed).values(), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


def test_halves_that_may_not_see_the_future(random: RandomValues) -> None:
    inputs = "float16[N,S,8] y, float16[8,24] wa, float16[24] ba"
    model = model_of(inputs, "float16 r", "r = com.microsoft.Attention <num_heads = 4, unidirectional = 1> (y, wa, ba)")
    feed = {name: value.astype(np.float16) for name, value in feeds(random, inputs).items()}
    value = Predictor(to_netdef(model)).run(feed)["r"]
    np.testing.assert_allclose(value, OnnxSession(model.SerializeToString()).run_values(feed)[0], rtol=0.01, atol=0.01)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("bits", "columns", "zero"), [(4, 32, ""), (4, 40, "bytes"), (4, 32, "floats"), (8, 32, "bytes")]
)
def test_products_with_packed_weights(
    bits: int, columns: int, zero: str, random: RandomValues, *, is_known: bool
) -> None:
    rows, block = 3, 16
    blocks, generator = -(-columns // block), random.generator
    sizes = {"w": (rows, blocks, block * bits // 8), "zero": (rows * -(-blocks * bits // 8),)}
    values: dict[str, Any] = {name: generator.integers(0, 256, size).astype(np.uint8) for name, size in sizes.items()}
    values["s"] = random.normal(rows * blocks)
    if zero == "floats":
        values["zero"] = generator.integers(0, 16, rows * blocks).astype(np.float32)
    names = "x, w, s" + (", zero" if zero else "")
    body = f"r = com.microsoft.MatMulNBits <K = {columns}, N = {rows}, bits = {bits}, block_size = {block}> ({names})"
    feed = {"x": random.normal(2, columns)}
    if is_known:
        model = model_of(f"float[A,{columns}] x", "float r", body)
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    else:
        feed |= values
        kinds = {np.dtype(np.uint8): "uint8", np.dtype(np.float32): "float"}
        given = [f"{kinds[value.dtype]}[{','.join(map(str, value.shape))}] {name}" for name, value in feed.items()]
        model = model_of(", ".join(given), "float r", body)
    check_here(model, feed)


def test_embeddings(random: RandomValues) -> None:
    generator = random.generator
    inputs = (
        "int32[N,S] ids, int32[N,S] kinds, float[11,8] words, float[7,8] positions, float[2,8] segments, "
        "float[8] b, float[8] b2, int32[N,S] mask"
    )
    body = "r, lens = com.microsoft.EmbedLayerNormalization (ids, kinds, words, positions, segments, b, b2, mask)"
    feed = feeds(random, "float[8] b, float[8] b2, int32[N,S] mask") | {
        "ids": generator.integers(0, 11, (N, S)).astype(np.int32),
        "kinds": generator.integers(0, 2, (N, S)).astype(np.int32),
        "words": random.normal(11, D), "positions": random.normal(7, D), "segments": random.normal(2, D),
    }  # fmt: skip
    check_here(model_of(inputs, "float[N,S,8] r, int32[N] lens", body), feed)


@pytest.mark.parametrize(
    "body",
    [
        'com.microsoft.FusedConv <activation = "Swish"> (i, w, c)',
        "com.microsoft.FusedConvolution (i, w, c)",
        "com.microsoft.DecoderMaskedMultiHeadAttention <num_heads = 4> (i, w, c)",
    ],
)
def test_what_has_no_definition_is_reported(body: str) -> None:
    inputs = "float[N,3,6,6] i, float[4,3,3,3] w, float[4] c"
    with pytest.raises(ConversionError, match="has no conversion to Caffe2 operators"):
        to_netdef(model_of(inputs, "float r", f"r = {body}"))


def test_carried_operators_are_not_expanded() -> None:
    inputs, body = FLOATS["bias_gelu"]
    net = to_netdef(model_of(inputs, "float r", f"r = {body}"), foreign="carry")
    assert [op.type for op in net.predict_net.op] == ["BiasGelu"]


@pytest.mark.oracle
def test_in_real_caffe2(random: RandomValues) -> None:
    with comparison() as check:
        for inputs, body in FLOATS.values():
            head = HEAD if "axis)" in body else ""
            check(inputs, "float r", f"r = {body}", [feeds(random, inputs)], head=head, domain="com.microsoft")
        for name in ("gemm_bias", "dynamic", "to_float", "linear"):
            inputs, outputs, body = QUANTIZED[name]
            check(inputs, outputs, f"r = {body}", [bytes_of(random, inputs)], head=SCALES, domain="com.microsoft")
