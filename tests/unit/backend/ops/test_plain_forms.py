"""Operators of Caffe2 that are what an ONNX node means, in real Caffe2 and on onnxruntime; how few there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import parser
from support.random_values import RandomValues
from support.strict_import import comparison

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.proto.caffe2_pb2 import NetDef

IMAGE = "float[n,c,h,w] x"
ROWS = "float[n,m] x"
VECTORS = "float[n,m,3] x"
INDICES = "int64[n,m] x"
SCALES = "<float[4] s = {1.0, 1.0, 2.5, 2.0}>"
TO_END = "int64[1] e = {9223372036854775807}"
CEIL = "ceil_mode = 1, kernel_shape = [3, 3], strides = [2, 2]"

# By inputs, initializers and body: the operators of the strict net.
FORMS: dict[tuple[str, str, str], str] = {
    (ROWS, "<float z = {0.5}>", "y = Max(x, z)"): "Clip",
    (ROWS, "<float[1] z = {0.5}>", "y = Min(z, x)"): "Clip",
    (ROWS, "<int64[1] s = {1}, int64[1] e = {-1}, int64[1] a = {1}>", "y = Slice(x, s, e, a)"): "Slice",
    (ROWS, "<int64[1] s = {1}, int64[1] e = {-2}, int64[1] a = {0}>", "y = Slice(x, s, e, a)"): "Slice",
    (ROWS, f"<int64[1] s = {{-1}}, {TO_END}, int64[1] a = {{1}}>", "y = Slice(x, s, e, a)"): "Slice",
    (
        ROWS, f"<int64[1] s = {{-5}}, {TO_END}, int64[1] a = {{1}}>", "y = Slice(x, s, e, a)",
    ): "Shape Add GT Where Concat Slice",
    (
        ROWS, "<int64[1] s = {-6}, int64[1] e = {-2}, int64[1] a = {0}>", "y = Slice(x, s, e, a)",
    ): "Shape Add GT Where Slice Slice",
    (
        ROWS, f"<int64[1] s = {{0}}, {TO_END}, int64[1] a = {{1}}, int64[1] t = {{2}}>", "y = Slice(x, s, e, a, t)",
    ): "Shape Range Gather",
    (
        ROWS, "<int64[1] s = {-1}, int64[1] e = {-9223372036854775807}, int64[1] a = {0}, int64[1] t = {-1}>",
        "y = Slice(x, s, e, a, t)",
    ): "Shape Add Range Gather",
    (
        ROWS, "<int64[1] s = {-2}, int64[1] e = {0}, int64[1] a = {0}, int64[1] t = {-3}>", "y = Slice(x, s, e, a, t)",
    ): "Shape Add Negative Range Negative Gather",
    (
        ROWS, "<int64[1] s = {1}, int64[1] e = {4}, int64[1] a = {0}, int64[1] t = {2}>", "y = Slice(x, s, e, a, t)",
    ): "Shape LT Where Range Gather",
    (INDICES, "<float[3] g = {1, 2, 3}>", "y = Gather(g, x)"): "Gather",
    (
        IMAGE, "<float[2] g = {1, 2}>", "y = BatchNormalization <epsilon = 0.0> (x, g, g, g, g)",
    ): "Reshape Reshape Reshape Reshape Sub Add Sqrt Div Mul Add",
    (VECTORS, "<float[3] g = {1, 2, 3}, float[3] b = {0, 1, 0}>", "y = LayerNormalization(x, g, b)"): "LayerNorm",
    (VECTORS, "<float[3] g = {1, 2, 3}>", "y = LayerNormalization(x, g)"): "LayerNorm",
    (IMAGE, "", f"y = MaxPool<{CEIL}>(x)"): "MaxPool",
    (IMAGE, "", f"y = MaxPool<{CEIL}, pads = [1, 1, 1, 1]>(x)"): "MaxPool",
    (IMAGE, "", f"y = AveragePool<{CEIL}, pads = [1, 1, 1, 1]>(x)"): "AveragePool",
    (IMAGE, "", 'y = MaxPool<auto_pad = "SAME_UPPER", kernel_shape = [3, 2], strides = [2, 3]>(x)'): "MaxPool",
    (
        "float[n,2,h,w] x", "<float[1,2,2,2] k = {1, 2, 3, 4, 5, 6, 7, 8}>",
        'y = Conv<auto_pad = "SAME_UPPER", strides = [2, 3]>(x, k)',
    ): "Conv",
    (
        IMAGE, SCALES, 'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , s)',
    ): "UpsampleBilinear",
    (
        "float[2,3,6,7] x", "<int64[4] s = {2, 3, 13, 9}>",
        'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , , s)',
    ): "UpsampleBilinear",
}  # fmt: skip


def feeds(inputs: str, random: RandomValues) -> Iterator[dict[str, Any]]:
    if inputs == INDICES:
        yield {"x": np.array([[-3, 0, 2], [-1, 1, 1]], np.int64)}
    elif inputs == VECTORS:
        yield {"x": random.numbers(2, 5, 3)}
    elif inputs.startswith("float[2,"):
        yield {"x": abs(random.numbers(2, 3, 6, 7))}
    elif inputs == ROWS:
        for shape in ((4, 3), (7, 9), (5, 6)):
            yield {"x": random.numbers(*shape)}
    else:
        for sizes in ((6, 7), (7, 8), (3, 5)):
            yield {"x": abs(random.numbers(2, 2, *sizes))}


def imported(inputs: str, initializers: str, body: str) -> tuple[Any, bytes]:
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float y) {initializers} {{ {body} }}'
    model = parser.parse_model(text)
    return to_netdef(model), model.SerializeToString()


def types(net: NetDef) -> str:
    return " ".join(op.type for op in net.op)


@pytest.mark.parametrize(("inputs", "initializers", "body"), FORMS)
def test_nodes_are_their_own_operators(inputs: str, initializers: str, body: str, random: RandomValues) -> None:
    net, model = imported(inputs, initializers, body)
    assert types(net.predict_net) == FORMS[inputs, initializers, body]
    predictor, session = Predictor(net), OnnxSession(model)
    for feed in feeds(inputs, random):
        (expected,) = session.run_values(feed)
        np.testing.assert_allclose(predictor.run(feed)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.oracle
def test_they_compute_the_same_in_real_caffe2(random: RandomValues) -> None:
    with comparison() as check:
        for inputs, initializers, body in FORMS:
            check(inputs, "float y", body, list(feeds(inputs, random)), head=initializers)


def test_pools_of_caffe_that_begin_behind_the_image_are_not_taken() -> None:
    net, _ = imported(IMAGE, "", "y = MaxPool<ceil_mode = 1, kernel_shape = [1, 1], strides = [2, 2]>(x)")
    assert "legacy_pad" not in str(net.predict_net)


def test_an_output_that_nobody_reads_may_be_one_that_caffe2_lacks() -> None:
    net, _ = imported(IMAGE, "", "y, i = MaxPool<kernel_shape = [2, 2]>(x)")
    assert types(net.predict_net) == "MaxPool"


def test_a_list_is_normalized_as_one_channel() -> None:
    net, model = imported("float[n] x", "<float[1] g = {2}>", "y = BatchNormalization (x, g, g, g, g)")
    feed = {"x": np.arange(4, dtype=np.float32)}
    np.testing.assert_allclose(Predictor(net).run(feed)["y"], OnnxSession(model).run_values(feed)[0], rtol=1e-5)


@pytest.mark.oracle
def test_moments_of_several_axes_have_their_dims() -> None:
    head = "<float[3,2] g = {1, 2, 3, 4, 5, 6}>"
    with comparison() as check:
        for outputs in ("float y", "float y, float m", "float y, float m, float d"):
            body = f"{outputs.replace('float ', '')} = LayerNormalization<axis = 1>(x, g)"
            check("float[n,3,2] x", outputs, body, [{"x": np.arange(12, dtype=np.float32).reshape(2, 3, 2)}], head=head)


LSTM_STEP, GRU_STEP = "FC Add LSTMUnit", "Split FC Add Slice Sigmoid Mul FC Add Concat GRUUnit"


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("kind", "attributes", "step"),
    [
        ("LSTM", "", LSTM_STEP),
        ("LSTM", ', direction = "bidirectional"', LSTM_STEP),
        ("GRU", "", GRU_STEP),
        ("GRU", ', direction = "reverse"', GRU_STEP),
        ("GRU", ", linear_before_reset = 1", "Split FC Split Add Slice Sigmoid Mul Add Concat GRUUnit"),
    ],
)
@pytest.mark.parametrize("lengths", ["", "l"])
def test_steps_of_recurrent_layers_are_units(
    random: RandomValues, kind: str, attributes: str, step: str, lengths: str
) -> None:
    gates, directions = {"LSTM": 4, "GRU": 3}[kind], 2 if "bidirectional" in attributes else 1
    weights = {"w": (directions, gates * 4, 3), "r": (directions, gates * 4, 4), "b": (directions, gates * 8)}
    held = ", ".join(
        f"float{list(shape)} {name} = {{{', '.join(f'{n:.4f}' for n in random.numbers(*shape).ravel())}}}"
        for name, shape in weights.items()
    )
    body = f"y, h = {kind}<hidden_size = 4{attributes}>(x, w, r, b, {lengths})".replace(", )", ")")
    inputs = "float[t,n,3] x" + (", int32[n] l" if lengths else "")
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float y, float h) <{held}> {{ {body} }}'
    net = to_netdef(parser.parse_model(text))
    steps = [arg.n for op in net.predict_net.op for arg in op.arg if arg.name == "step_net"]
    assert [types(net) for net in steps] == [step] * directions
    reversals = "ReversePackedSegs" if lengths else "Range"
    count = types(net.predict_net).split().count(reversals)
    assert count == (0 if "direction" not in attributes else 2 if lengths else 1)
    feed = {"x": random.numbers(5, 3, 3)} | ({"l": np.array([5, 0, 2], np.int32)} if lengths else {})
    with comparison() as check:
        check(inputs, "float y, float h", body, [feed], head=f"<{held}>")


def test_a_layer_starts_from_zeros_of_every_batch(random: RandomValues) -> None:
    """PyTorch computes the shape of initial states; no operator is left of it."""
    held = ", ".join(
        f"float{list(shape)} {name} = {{{', '.join(f'{n:.4f}' for n in random.numbers(*shape).ravel())}}}"
        for name, shape in {"w": (1, 12, 3), "r": (1, 12, 4)}.items()
    )
    body = (
        "n = Shape<start = 1, end = 2>(x) s = Concat<axis = 0>(one, n, four) z = ConstantOfShape(s) "
        "y, h = GRU<hidden_size = 4, linear_before_reset = 1>(x, w, r, , , z)"
    )
    held = f"<{held}, int64[1] one = {{1}}, int64[1] four = {{4}}>"
    text = f'<ir_version: 10, opset_import: ["": 21]> g (float[t,n,3] x) => (float y, float h) {held} {{ {body} }}'
    model = parser.parse_model(text)
    net = to_netdef(model)
    assert types(net.predict_net) == "FC RecurrentNetwork ExpandDims Copy"
    feed = {"x": random.numbers(5, 2, 3)}
    results = Predictor(net).run(feed)
    for name, value in zip("yh", OnnxSession(model.SerializeToString()).run_values(feed), strict=True):
        np.testing.assert_allclose(results[name], value, rtol=1e-5, atol=1e-6)
