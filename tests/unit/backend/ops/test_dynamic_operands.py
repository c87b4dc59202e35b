"""Operands that are computed at run time where Caffe2 takes arguments, in real Caffe2 and on onnxruntime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from support.random_values import DTYPES, RandomValues
from support.strict_import import comparison

pytestmark = pytest.mark.oracle


def axes(*values: int) -> Any:
    return np.array(values, np.int64)


REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSumExp", "ReduceLogSum",
)  # fmt: skip
LISTS = [axes(0), axes(-1), axes(2, 0), axes(-3, 1), axes(1, 0, 2), axes(-1, -2)]


@pytest.mark.parametrize("keep", [0, 1])
def test_axes_of_any_number(keep: int, random: RandomValues) -> None:
    feeds = [{"x": random.numbers(*shape), "a": a} for a in LISTS for shape in ((2, 3, 4), (1, 5, 2))]
    feeds.append({"x": random.numbers(2, 3, 4), "a": axes()})
    with comparison() as check:
        for kind in REDUCTIONS:
            given = [feed | {"x": abs(feed["x"])} for feed in feeds] if kind == "ReduceLogSum" else feeds
            check("float[A,B,C] x, int64[K] a", "float y", f"y = {kind}<keepdims = {keep}>(x, a)", given)
            check("float[A,B,C] x, int64[1] a", "float y", f"y = {kind}<keepdims = {keep}>(x, a)", given[:4])


def test_no_axes_at_all_reduce_nothing_where_the_operator_says_so(random: RandomValues) -> None:
    feeds = [{"x": abs(random.numbers(2, 3)), "a": a} for a in (axes(), axes(1), axes(0, -1))]
    with comparison() as check:
        for kind in REDUCTIONS:
            check("float[A,B] x, int64[K] a", "float y", f"y = {kind}<noop_with_empty_axes = 1>(x, a)", feeds)


@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_nothing(keep: int, random: RandomValues) -> None:
    shapes = ((2, 0, 4), (0, 3, 2), (2, 3, 0))
    with comparison() as check:
        for kind in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp"):
            feeds = [{"x": random.numbers(*shape), "a": axes(1)} for shape in shapes]
            check("float[A,B,C] x, int64[1] a", "float y", f"y = {kind}<keepdims = {keep}>(x, a)", feeds)


@pytest.mark.parametrize("name", ["int32", "int64", "double"])
def test_reductions_of_other_numbers(name: str, random: RandomValues) -> None:
    feeds = [{"x": random.numbers(2, 3, 2, name=name), "a": a} for a in LISTS]
    with comparison() as check:
        more = ("ReduceMean",) if name == "double" else ("ReduceProd",)
        for kind in ("ReduceSum", "ReduceMax", "ReduceMin", *more):
            check(f"{name}[A,B,C] x, int64[K] a", f"{name} y", f"y = {kind}<keepdims = 0>(x, a)", feeds)


def test_means_of_doubles(random: RandomValues) -> None:
    feeds = [{"x": random.numbers(*shape, name="double")} for shape in ((2, 3, 4), (1, 3, 1))]
    layer = "s = Constant<value = double[1] {1.5}>() y = LayerNormalization<axis = 1>(x, s)"
    known = "a = Constant<value = int64[2] {0, -1}>() y = ReduceMean<keepdims = 0>(x, a)"
    with comparison() as check:
        check("double[A,3,B] x", "double y", "y = ReduceMean(x)", feeds)
        check("double[A,3,B] x", "double y", known, feeds)
        check("double[A,3,B] x", "double y", layer, feeds)


def test_greatest_and_least_of_bools(random: RandomValues) -> None:
    feeds = [{"x": random.generator.normal(size=(3, 4)) > 0, "a": a} for a in (axes(0), axes(-1), axes(1, 0))]
    with comparison() as check:
        for kind in ("ReduceMax", "ReduceMin"):
            check("bool[A,B] x, int64[K] a", "bool y", f"y = {kind}(x, a)", feeds)


def test_greatest_numbers_that_are_infinite() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2]], np.float32)
    with comparison() as check:
        check("float[3,2] x, int64[1] a", "float y", "y = ReduceLogSumExp(x, a)", [{"x": x, "a": axes(1)}])


def test_a_number_of_no_dims() -> None:
    x = np.array(-3, np.float32)
    with comparison() as check:
        for kind in ("ReduceSum", "ReduceL1", "ReduceSumSquare"):
            check("float x, int64[0] a", "float y", f"y = {kind}<keepdims = 0>(x, a)", [{"x": x, "a": axes()}])
        check("float x, int64[2] a", "float y", "y = Unsqueeze(x, a)", [{"x": x, "a": axes(0, 1)}])


def test_squeeze(random: RandomValues) -> None:
    feeds = [{"x": random.numbers(1, 3, 1), "a": a} for a in (axes(0), axes(-1), axes(2, 0))]
    shapes = ((1, 3, 1), (2, 1, 3), (1, 0, 2))
    with comparison() as check:
        check("float[A,B,C] x, int64[K] a", "float y", "y = Squeeze(x, a)", feeds)
        check("float[A,B,C] x", "float y", "y = Squeeze(x)", [{"x": random.numbers(*shape)} for shape in shapes])
        check(
            "float[A,B] x, int64[2] a", "float y", "y = Squeeze(x, a)", [{"x": random.numbers(1, 1), "a": axes(0, 1)}]
        )


def test_unsqueeze(random: RandomValues) -> None:
    lists = (axes(0, 1), axes(3, 0), axes(-1, 1), axes(2, -1))
    feeds = [{"x": random.numbers(*shape), "a": a} for shape in ((2, 3), (0, 3)) for a in lists]
    with comparison() as check:
        check("float[A,B] x, int64[2] a", "float y", "y = Unsqueeze(x, a)", feeds)
        check(
            "float[A,B] x, int64[1] a", "float y", "y = Unsqueeze(x, a)", [{"x": random.numbers(2, 3), "a": axes(-2)}]
        )


FAR = 2**62  # the greatest integer onnxruntime takes for the other end where the step is below zero
CUTS = [
    (axes(0, 1), axes(2, 4), axes(0, 1), axes(1, 1)),
    (axes(-2, 4), axes(FAR, -5), axes(-1, 0), axes(1, -1)),
    (axes(5, 0), axes(-FAR, FAR), axes(1, 0), axes(-2, 3)),
    (axes(-100, 3), axes(100, 1), axes(0, 1), axes(2, 1)),
    (axes(-1, -1), axes(-FAR, -3), axes(1, 0), axes(-1, -1)),
]


@pytest.mark.parametrize("name", ["float", "int64", "bool"])
def test_slices(name: str, random: RandomValues) -> None:
    feeds = [
        {"x": random.numbers(*shape, name=name), "s": s, "e": e, "a": a, "t": t}
        for (s, e, a, t), shape in product(CUTS, ((5, 6), (3, 2), (0, 4)))
    ]
    ends = f"{name}[A,B] x, int64[2] s, int64[2] e, int64[2] a"
    head = "<int64[1] s = {-1}, int64[1] e = {-100}, int64[1] a = {1}, int64[1] t = {-2}>"
    known = "<int64[2] a = {1, 0}, int64[2] t = {1, -1}>"
    with comparison() as check:
        check(f"{ends}, int64[2] t", f"{name} y", "y = Slice(x, s, e, a, t)", feeds)
        whole = [{key: value for key, value in feed.items() if key != "t"} for feed in feeds]
        check(ends, f"{name} y", "y = Slice(x, s, e, a)", whole)
        check(f"{name}[A,B] x", f"{name} y", "y = Slice(x, s, e, a, t)", [{"x": f["x"]} for f in feeds], head=head)
        bare = [{key: feed[key] for key in "xse"} for feed in feeds]
        check(f"{name}[A,B] x, int64[2] s, int64[2] e", f"{name} y", "y = Slice(x, s, e, a, t)", bare, head=known)


MODES = ("constant", "edge", "reflect", "wrap")


def test_slices_of_the_first_axes(random: RandomValues) -> None:
    """How many axes they are is known when the net runs; without axes a list is one of the first."""
    lists = [(axes(1), axes(3)), (axes(-3), axes(-1)), (axes(0, 1), axes(2, 2**62)), (axes(-1, -2), axes(9, -1))]
    feeds = [{"x": random.numbers(4, 3), "s": start, "e": end} for start, end in lists]
    steps = [feed | {"t": t} for feed, t in zip(feeds, (axes(2), axes(1), axes(1, 2), axes(1, 1)), strict=True)]
    with comparison() as check:
        check("float[A,B] x, int64[K] s, int64[L] e", "float y", "y = Slice(x, s, e)", feeds)
        check("float[A,B] x, int64[K] s, int64[L] e, int64[M] t", "float y", "y = Slice(x, s, e, , t)", steps)
        check("float[A,B] x, int64[K] s, int64[1] e", "float y", "y = Slice(x, s, e)", feeds[:2])


@pytest.mark.parametrize("mode", MODES)
def test_known_pads_of_open_axes(mode: str, random: RandomValues) -> None:
    feeds = [{"x": random.numbers(*shape)} for shape in ((2, 5, 4), (1, 4, 5))]
    pads = ((0, 1, 0, 0, 2, 3), (0, 0, 2, 0, 0, 0), (0, 1, 2, 0, 1, -1))
    with comparison() as check:
        for each in pads[: 3 if mode != "wrap" else 2]:
            body = f'p = Constant<value = int64[6] {{{", ".join(map(str, each))}}}>() y = Pad<mode = "{mode}">(x, p)'
            check("float[A,B,C] x", "float y", body, feeds)


@pytest.mark.parametrize("mode", MODES)
def test_pads(mode: str, random: RandomValues) -> None:
    pads = [axes(1, 0, 2, 3), axes(0, 0, 0, 0), axes(2, 2, 1, 1)] + [axes(0, 4, 0, 5)] * (mode != "reflect")
    feeds = [{"x": random.numbers(*shape), "p": p} for p in pads for shape in ((3, 5), (4, 4))]
    below = (axes(-1, -2, 0, -1), axes(-2, 1, 1, -2), axes(2, -3, -1, 1))
    feeds += [{"x": random.numbers(5, 6), "p": p} for p in below]
    named = [{"x": random.numbers(3, 5), "p": axes(2, 1), "a": axes(a)} for a in (0, -1)]
    with comparison() as check:
        check("float[A,B] x, int64[4] p", "float y", f'y = Pad<mode = "{mode}">(x, p)', feeds)
        check("float[A,B] x, int64[2] p, int64[1] a", "float y", f'y = Pad<mode = "{mode}">(x, p, , a)', named)
        head = "<int64[4] p = {1, -1, -2, 2}>"
        for dims in ("A,B", "5,6"):
            given = [{"x": random.numbers(5, 6)}]
            check(f"float[{dims}] x", "float y", f'y = Pad<mode = "{mode}">(x, p)', given, head=head)


def test_pads_with_a_value(random: RandomValues) -> None:
    with comparison() as check:
        for name in ("double", "int32", "int64"):
            value = np.array(1 / 3 if name == "double" else -7, DTYPES[name])
            shapes = ((2, 3), (0, 2))
            feeds = [{"x": random.numbers(*shape, name=name), "p": axes(1, 2, 0, 3), "v": value} for shape in shapes]
            check(f"{name}[A,B] x, int64[4] p, {name} v", f"{name} y", "y = Pad(x, p, v)", feeds)


@pytest.mark.parametrize(
    "attributes",
    [
        "group = 1", "strides = [2, 1], pads = [1, 0, 2, 1], dilations = [1, 2]", 'auto_pad = "SAME_UPPER"',
        'auto_pad = "SAME_LOWER", strides = [2, 3]', "group = 2",
    ],
)  # fmt: skip
def test_convolutions_with_kernels_of_any_size(attributes: str, random: RandomValues) -> None:
    group = 2 if attributes == "group = 2" else 1
    feeds = [
        {"x": random.numbers(2, 4, 7, 8), "w": random.numbers(6, 4 // group, *size), "b": random.numbers(6)}
        for size in ((1, 1), (3, 2), (2, 3))
    ]
    with comparison() as check:
        check("float[N,4,H,W] x, float[O,C,K,L] w, float[6] b", "float y", f"y = Conv<{attributes}>(x, w, b)", feeds)


def test_convolutions_of_sequences_and_volumes(random: RandomValues) -> None:
    with comparison() as check:
        feed = {"x": random.numbers(2, 3, 9), "w": random.numbers(4, 3, 2)}
        check("float[N,C,H] x, float[4,C,K] w", "float y", "y = Conv(x, w)", [feed])
        feed = {"x": random.numbers(2, 3, 4, 5, 6), "w": random.numbers(4, 3, 2, 3, 1)}
        check("float[N,C,H,W,D] x, float[4,C,K,L,M] w", "float y", "y = Conv(x, w)", [feed])


def test_triangles(random: RandomValues) -> None:
    x = random.numbers(2, 4, 5)
    x[0, 0, 0], x[1, 3, 0] = np.inf, np.nan
    feeds = [{"x": x, "k": np.array(k)} for k in (-6, -2, 0, 1, 6)] + [{"x": random.numbers(2, 0, 3), "k": np.array(1)}]
    with comparison() as check:
        for upper in (0, 1):
            check("float[A,B,C] x, int64 k", "float y", f"y = Trilu<upper = {upper}>(x, k)", feeds)


def test_uneven_pieces_of_an_axis_of_any_size(random: RandomValues) -> None:
    feeds = [{"x": random.numbers(size, 2)} for size in (6, 7, 5, 3)]
    with comparison() as check:
        check("float[A,B] x", "float p, float q, float r", "p, q, r = Split<num_outputs = 3>(x)", feeds)


def test_reshape_with_dims_of_zero(random: RandomValues) -> None:
    body = "y = Reshape<allowzero = 1>(x, s)"
    shapes = [((0, 3), axes(3, 0)), ((0, 3), axes(0, 7)), ((4, 3), axes(-1, 6))]
    with comparison() as check:
        feeds = [{"x": random.numbers(*shape), "s": s} for shape, s in shapes]
        check("float[A,B] x, int64[2] s", "float y", body, feeds)
        check("float[A,B] x", "float y", body, [{"x": random.numbers(0, 3)}], head="<int64[3] s = {5, 0, 2}>")


def test_remainders(random: RandomValues) -> None:
    """Take remainders of numbers far apart, of infinity, and by zero."""
    special = [0.0, -0.0, 1.0, -7.5, 1e30, 1e-40, np.inf, -np.inf, np.nan, 3e-39, 5.3, 1e38]
    a, b = (np.array(values) for values in zip(*product(special, special), strict=True))
    more = random.generator.normal(size=(2, 200)) * 10.0 ** random.generator.integers(-20, 20, size=(2, 200))
    with comparison() as check:
        for name in ("float", "double"):
            feeds = [{"a": x.astype(DTYPES[name]), "b": y.astype(DTYPES[name])} for x, y in ((a, b), more)]
            check(f"{name}[N] a, {name}[N] b", f"{name} y", "y = Mod<fmod = 1>(a, b)", feeds)


def test_whole_powers() -> None:
    base, exponent = (np.array(v) for v in zip(*product(range(-6, 7), range(12)), strict=True))
    unit = {"a": np.array([1, -1, -1, 1]), "b": np.array([-3, -3, -2, 0])}
    with comparison() as check:
        for name in ("int32", "int64"):
            feeds = [{"a": base, "b": exponent}, unit]
            given = [{key: value.astype(DTYPES[name]) for key, value in feed.items()} for feed in feeds]
            check(f"{name}[N] a, {name}[N] b", f"{name} y", "y = Pow(a, b)", given)


@pytest.mark.parametrize(("start", "end"), [(-(2**63), 2), (-(2**63), 2**63 - 1), (0, -(2**63)), (1, -(2**63) + 1)])
def test_bounds_of_slices_that_mean_the_start(start: int, end: int, random: RandomValues) -> None:
    body = f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() y = Slice(x, s, e)"
    with comparison() as check:
        check("float[A,B] x", "float y", body, [{"x": random.numbers(3, 2)}])


def test_known_bounds_of_every_size(random: RandomValues) -> None:
    """Try every size that has the end not before the start: Caffe2 refuses others."""
    numbers = (0, 1, 3, 5, -1, -2, -4, 2**62)

    def fits(start: int, end: int, size: int) -> bool:
        first, last = (
            min(start, size) if start >= 0 else max(size + start, 0),
            min(end, size) if end >= 0 else size + end,
        )
        return first <= last or 0 <= end <= start or end <= start < 0

    with comparison() as check:
        for start, end in product(numbers, numbers):
            body = f"s = Constant<value_ints = [{start}]>() e = Constant<value_ints = [{end}]>() y = Slice(x, s, e)"
            sizes = [size for size in range(7) if fits(start, end, size)]
            check("float[A,B] x", "float y", body, [{"x": random.numbers(size, 2)} for size in sizes])


def test_scales_of_unknown_number_where_there_is_no_axis(random: RandomValues) -> None:
    """They can only be one number."""
    feeds = [{"x": random.numbers(5), "s": np.array([0.02], np.float32)}]
    with comparison() as check:
        check("float[A] x, float[K] s", "int8 y", "z = Constant<value = int8 {0}>() y = QuantizeLinear(x, s, z)", feeds)
        check("float[A] x, float[K] s", "float y", "i = Cast<to = 3>(x) y = DequantizeLinear(i, s)", feeds)
