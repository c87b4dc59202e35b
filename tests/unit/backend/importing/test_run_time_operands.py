"""Operands that are computed at run time where Caffe2 takes arguments, in real Caffe2 and on onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend.convert import to_netdef
from caffe2_backend.onnx_session import OnnxSession

RNG = np.random.default_rng(3)
Feeds = dict[str, Any]


def check(inputs: str, outputs: str, body: str, feeds: list[Feeds], opset: int = 21, head: str = "") -> None:
    """One net, run with every feed, gives what onnxruntime gives of the model."""
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}]> g ({inputs}) => ({outputs}) {head} {{ {body} }}'
    )
    session = OnnxSession(model.SerializeToString())
    net = to_netdef(model)
    wanted = list(net.predict_net.external_output)
    results = run_oracle([OracleRun(net.predict_net, feed, net.init_net, wanted) for feed in feeds])
    for feed, result in zip(feeds, results, strict=True):
        assert result.error == ""
        for name, expected in zip(wanted, session.run_values(feed), strict=True):
            actual = result.outputs[name]
            assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), feed
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6, err_msg=str(feed))


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return (RNG.normal(size=shape) * 4).astype(dtype)


def axes(*values: int) -> Any:
    return np.array(values, np.int64)


REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSumExp", "ReduceLogSum",
)  # fmt: skip
LISTS = [axes(0), axes(-1), axes(2, 0), axes(-3, 1), axes(1, 0, 2), axes(-1, -2)]


@pytest.mark.oracle
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_axes_of_any_number(kind: str, keep: int) -> None:
    operand = abs if kind == "ReduceLogSum" else lambda x: x
    feeds = [{"x": operand(numbers(*shape)), "a": a} for a in LISTS for shape in ((2, 3, 4), (1, 5, 2))]
    feeds.append({"x": operand(numbers(2, 3, 4)), "a": axes()})
    check("float[A,B,C] x, int64[K] a", "float y", f"y = {kind}<keepdims = {keep}>(x, a)", feeds)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_no_axes_at_all_reduce_nothing_where_the_operator_says_so(kind: str) -> None:
    feeds = [{"x": abs(numbers(2, 3)), "a": a} for a in (axes(), axes(1), axes(0, -1))]
    check("float[A,B] x, int64[K] a", "float y", f"y = {kind}<noop_with_empty_axes = 1>(x, a)", feeds)


@pytest.mark.oracle
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp"])
def test_reductions_of_nothing(kind: str, keep: int) -> None:
    feeds = [{"x": numbers(*shape), "a": axes(1)} for shape in ((2, 0, 4), (0, 3, 2), (2, 3, 0))]
    check("float[A,B,C] x, int64[1] a", "float y", f"y = {kind}<keepdims = {keep}>(x, a)", feeds)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["int32", "int64", "double"])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
def test_reductions_of_other_numbers(kind: str, name: str) -> None:
    if (kind, name) == ("ReduceProd", "double"):
        pytest.skip("onnxruntime has no such product")
    dtype = np.dtype("float64" if name == "double" else name)
    feeds = [{"x": numbers(2, 3, 2, dtype=dtype), "a": a} for a in LISTS]
    check(f"{name}[A,B,C] x, int64[K] a", f"{name} y", f"y = {kind}<keepdims = 0>(x, a)", feeds)


@pytest.mark.oracle
def test_greatest_numbers_that_are_infinite() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2]], np.float32)
    check("float[3,2] x, int64[1] a", "float y", "y = ReduceLogSumExp(x, a)", [{"x": x, "a": axes(1)}])


@pytest.mark.oracle
def test_a_number_of_no_dims() -> None:
    feeds = [{"x": np.array(-3, np.float32), "a": axes()}]
    for kind in ("ReduceSum", "ReduceL1", "ReduceSumSquare"):
        check("float x, int64[0] a", "float y", f"y = {kind}<keepdims = 0>(x, a)", feeds)
    check("float x, int64[2] a", "float y", "y = Unsqueeze(x, a)", [{"x": feeds[0]["x"], "a": axes(0, 1)}])


@pytest.mark.oracle
def test_squeeze() -> None:
    x = numbers(1, 3, 1)
    feeds = [{"x": x, "a": a} for a in (axes(0), axes(-1), axes(2, 0))]
    check("float[A,B,C] x, int64[K] a", "float y", "y = Squeeze(x, a)", feeds)
    check(
        "float[A,B,C] x", "float y", "y = Squeeze(x)", [{"x": numbers(*s)} for s in ((1, 3, 1), (2, 1, 3), (1, 0, 2))]
    )
    check("float[A,B] x, int64[2] a", "float y", "y = Squeeze(x, a)", [{"x": numbers(1, 1), "a": axes(0, 1)}])


@pytest.mark.oracle
def test_unsqueeze() -> None:
    feeds = [
        {"x": numbers(*s), "a": a} for s in ((2, 3), (0, 3)) for a in (axes(0, 1), axes(3, 0), axes(-1, 1), axes(2, -1))
    ]
    check("float[A,B] x, int64[2] a", "float y", "y = Unsqueeze(x, a)", feeds)
    check("float[A,B] x, int64[1] a", "float y", "y = Unsqueeze(x, a)", [{"x": numbers(2, 3), "a": axes(-2)}])


FAR = np.iinfo(np.int64).max
CUTS = [
    (axes(0, 1), axes(2, 4), axes(0, 1), axes(1, 1)),
    (axes(-2, 4), axes(FAR, -5), axes(-1, 0), axes(1, -1)),
    (axes(5, 0), axes(-FAR, FAR), axes(1, 0), axes(-2, 3)),
    (axes(-100, 3), axes(100, 1), axes(0, 1), axes(2, 1)),
    (axes(-1, -1), axes(-FAR, -3), axes(1, 0), axes(-1, -1)),
]


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["float", "int64", "bool"])
def test_slices(name: str) -> None:
    dtype = {"float": np.float32, "int64": np.int64, "bool": np.bool_}[name]
    feeds = [
        {"x": numbers(*shape, dtype=dtype), "s": s, "e": e, "a": a, "t": t}
        for s, e, a, t in CUTS for shape in ((5, 6), (3, 2))
    ]  # fmt: skip
    operands = "int64[2] s, int64[2] e, int64[2] a, int64[2] t"
    check(f"{name}[A,B] x, {operands}", f"{name} y", "y = Slice(x, s, e, a, t)", feeds)
    without = [{key: value for key, value in feed.items() if key != "t"} for feed in feeds[:2]]
    check(f"{name}[A,B] x, int64[2] s, int64[2] e, int64[2] a", f"{name} y", "y = Slice(x, s, e, a)", without)
    head = "<int64[1] s = {-1}, int64[1] e = {-100}, int64[1] a = {1}, int64[1] t = {-2}>"
    check(f"{name}[A,B] x", f"{name} y", "y = Slice(x, s, e, a, t)", [{"x": f["x"]} for f in feeds], head=head)


PADS = [axes(1, 0, 2, 3), axes(0, 0, 0, 0), axes(2, 2, 1, 1), axes(0, 4, 0, 5)]


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode: str) -> None:
    pads = PADS if mode != "reflect" else [axes(1, 0, 2, 3), axes(0, 0, 0, 0), axes(2, 2, 1, 1)]
    feeds = [{"x": numbers(*shape), "p": p} for p in pads for shape in ((3, 5), (4, 4))]
    check("float[A,B] x, int64[4] p", "float y", f'y = Pad<mode = "{mode}">(x, p)', feeds)
    named = [{"x": numbers(3, 5), "p": axes(2, 1), "a": axes(a)} for a in (0, -1)]
    check("float[A,B] x, int64[2] p, int64[1] a", "float y", f'y = Pad<mode = "{mode}">(x, p, , a)', named)


@pytest.mark.oracle
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads_below_zero(mode: str) -> None:
    feeds = [{"x": numbers(5, 6), "p": p} for p in (axes(-1, -2, 0, -1), axes(-2, 1, 1, -2), axes(2, -3, -1, 1))]
    check("float[A,B] x, int64[4] p", "float y", f'y = Pad<mode = "{mode}">(x, p)', feeds)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["double", "int32", "int64"])
def test_pads_with_a_value(name: str) -> None:
    dtype = np.dtype("float64" if name == "double" else name)
    value = np.array(1 / 3 if name == "double" else -7, dtype)
    feeds = [{"x": numbers(*shape, dtype=dtype), "p": axes(1, 2, 0, 3), "v": value} for shape in ((2, 3), (0, 2))]
    check(f"{name}[A,B] x, int64[4] p, {name} v", f"{name} y", "y = Pad(x, p, v)", feeds)


@pytest.mark.oracle
def test_triangles() -> None:
    x = numbers(2, 4, 5)
    x[0, 0, 0], x[1, 3, 0] = np.inf, np.nan
    for upper in (0, 1):
        feeds = [{"x": x, "k": np.array(k)} for k in (-6, -2, 0, 1, 6)]
        feeds.append({"x": numbers(2, 0, 3), "k": np.array(1)})
        check("float[A,B,C] x, int64 k", "float y", f"y = Trilu<upper = {upper}>(x, k)", feeds)


@pytest.mark.oracle
def test_uneven_pieces_of_an_axis_of_any_size() -> None:
    feeds = [{"x": numbers(size, 2)} for size in (6, 7, 5, 3)]
    check("float[A,B] x", "float p, float q, float r", "p, q, r = Split<num_outputs = 3>(x)", feeds)


@pytest.mark.oracle
def test_reshape_with_dims_of_zero() -> None:
    body = "y = Reshape<allowzero = 1>(x, s)"
    check("float[A,B] x, int64[2] s", "float y", body, [
        {"x": numbers(0, 3), "s": axes(3, 0)}, {"x": numbers(0, 3), "s": axes(0, 7)},
        {"x": numbers(4, 3), "s": axes(-1, 6)},
    ])  # fmt: skip
    check("float[A,B] x", "float y", body, [{"x": numbers(0, 3)}], head="<int64[3] s = {5, 0, 2}>")
