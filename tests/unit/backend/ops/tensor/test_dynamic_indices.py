"""Indices, scattered entries, ranks and running sums of operands of any size, in real Caffe2 and on onnxruntime."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.random_values import DTYPES, RandomValues
from support.strict_import import comparison

pytestmark = pytest.mark.oracle


def test_gather_elements(random: RandomValues) -> None:
    with comparison() as check:
        for axis in (0, 1, -1):
            feeds = [
                {"x": random.numbers(*shape), "i": random.within(-shape[axis], shape[axis], *chosen)}
                for shape, chosen in (((3, 4, 2), (2, 3, 2)), ((2, 5, 6), (2, 5, 1)), ((4, 3, 2), (0, 3, 2)))
            ]
            check("float[A,B,C] x, int64[D,E,F] i", "float y", f"y = GatherElements<axis = {axis}>(x, i)", feeds)


def test_gather_nd(random: RandomValues) -> None:
    with comparison() as check:
        for batch in (0, 1):
            feeds = []
            for n in (2, 3):
                first = random.within(-n, n, n, 5, 1) if not batch else random.within(-3, 3, n, 5, 1)
                feeds.append(
                    {"x": random.numbers(n, 3, 4), "i": np.concatenate([first, random.within(-3, 3, n, 5, 1)], -1)}
                )
            check("float[A,3,4] x, int64[A,5,2] i", "float y", f"y = GatherND<batch_dims = {batch}>(x, i)", feeds)


SCATTERED = ("none", "add", "mul", "max", "min")


@pytest.mark.parametrize("name", ["float", "int64"])
def test_scatter_elements(name: str, random: RandomValues) -> None:
    with comparison() as check:
        for kind in SCATTERED:
            feeds = []
            for shape, chosen in (((3, 4), (3, 2)), ((5, 3), (4, 2)), ((2, 3), (0, 3)), ((0, 3), (0, 2))):
                i = random.within(-shape[1], shape[1], *chosen)
                if kind == "none":  # what is written twice is not defined
                    i = np.argsort(random.generator.normal(size=(chosen[0], shape[1])), 1)[:, : chosen[1]].astype(
                        np.int64
                    )
                feeds.append({"x": random.numbers(*shape, name=name), "i": i, "u": random.numbers(*chosen, name=name)})
            body = f'y = ScatterElements<axis = 1, reduction = "{kind}">(x, i, u)'
            check(f"{name}[A,B] x, int64[C,D] i, {name}[C,D] u", f"{name} y", body, feeds)
            check(f"{name}[3,4] x, int64[3,2] i, {name}[3,2] u", f"{name} y", body, feeds[:1])


@pytest.mark.parametrize("name", ["float", "int32", "double"])
def test_scatter_nd(name: str, random: RandomValues) -> None:
    with comparison() as check:
        for kind in SCATTERED:
            i = np.array([[1], [-1], [1]] if kind != "none" else [[1], [-1], [0]])
            feeds = [
                {"x": random.numbers(rows, 3, name=name), "i": i, "u": random.numbers(3, 3, name=name)}
                for rows in (4, 6)
            ]
            none = np.zeros((0, 1), np.int64)
            feeds.append({"x": random.numbers(0, 3, name=name), "i": none, "u": random.numbers(0, 3, name=name)})
            body = f'y = ScatterND<reduction = "{kind}">(x, i, u)'
            check(f"{name}[A,B] x, int64[C,1] i, {name}[C,B] u", f"{name} y", body, feeds)
            check(f"{name}[4,3] x, int64[3,1] i, {name}[3,3] u", f"{name} y", body, feeds[:1])


def test_scatter_of_bools() -> None:
    feed = {"x": np.array([True, False, True]), "i": np.array([0, 1]), "u": np.array([False, True])}
    with comparison() as check:
        check("bool[A] x, int64[B] i, bool[B] u", "bool y", "y = ScatterElements(x, i, u)", [feed])


def test_where_entries_are_not_zero(random: RandomValues) -> None:
    with comparison() as check:
        for name in ("float", "int64", "bool", "uint8"):
            feeds = [{"x": random.within(0, 2, *shape, name=name)} for shape in ((2, 3, 4), (3, 1, 5), (1, 1, 1))]
            feeds.append({"x": np.zeros((2, 2, 2), DTYPES[name])})
            check(f"{name}[A,B,C] x", "int64 y", "y = NonZero(x)", feeds)


def test_compress(random: RandomValues) -> None:
    masks = [[True, False, True], [False], [False, True]]
    feeds = [{"x": random.numbers(*shape), "c": np.array(mask)} for shape, mask in product(((3, 4), (4, 3)), masks)]
    with comparison() as check:
        for axis in ("", "<axis = 0>", "<axis = -1>"):
            check("float[A,B] x, bool[C] c", "float y", f"y = Compress{axis}(x, c)", feeds)


@pytest.mark.parametrize("name", ["float", "int64", "int32", "double"])
def test_the_greatest_few(name: str, random: RandomValues) -> None:
    shapes = ((2, 5, 3), (3, 4, 1), (0, 4, 2))
    feeds = [
        {"x": random.within(-3, 4, *shape, name=name), "k": np.array([k])} for shape, k in product(shapes, (1, 3, 4, 0))
    ]
    with comparison() as check:
        for largest in (0, 1):
            body = f"v, i = TopK<axis = 1, largest = {largest}>(x, k)"
            check(f"{name}[A,B,C] x, int64[1] k", f"{name} v, int64 i", body, feeds)


@pytest.mark.parametrize("name", ["float", "int64", "double", "int8"])
def test_what_is_different(name: str, random: RandomValues) -> None:
    feeds = [{"x": random.within(-1, 2, *shape, name=name)} for shape in ((6, 2), (2, 7), (1, 1), (0, 3))]
    outputs = f"{name} y, int64 i, int64 r, int64 c"
    with comparison() as check:
        for attributes in ("sorted = 1", "sorted = 0", "axis = 0", "axis = -1, sorted = 0", "axis = 1"):
            check(f"{name}[A,B] x", outputs, f"y, i, r, c = Unique<{attributes}>(x)", feeds)


@pytest.mark.parametrize("name", ["float", "double", "int32", "int64"])
def test_running_sums(name: str, random: RandomValues) -> None:
    shapes = ((2, 5, 3), (1, 8, 1), (3, 0, 2))
    feeds = [{"x": random.numbers(*shape, name=name), "a": np.array(a)} for shape, a in product(shapes, (0, 1, -1))]
    fixed = [{"x": feed["x"]} for feed in feeds]
    with comparison() as check:
        for attributes in ("", "<reverse = 1>", "<exclusive = 1>", "<reverse = 1, exclusive = 1>"):
            check(f"{name}[A,B,C] x, int64 a", f"{name} y", f"y = CumSum{attributes}(x, a)", feeds)
            body = f"a = Constant<value_int = 1>() y = CumSum{attributes}(x, a)"
            check(f"{name}[A,B,C] x", f"{name} y", body, fixed)
            check(f"{name}[2,5,3] x", f"{name} y", body, fixed[:1])


def test_the_last_of_equals(random: RandomValues) -> None:
    feeds = [{"x": random.within(0, 3, *shape, name="float")} for shape in ((4, 6), (2, 9))]
    with comparison() as check:
        for keep in (0, 1):
            body = f"y = ArgMax<axis = 1, keepdims = {keep}, select_last_index = 1>(x)"
            check("float[A,B] x", "int64 y", body, feeds)


def test_sequences_that_are_reversed(random: RandomValues) -> None:
    feeds = [{"x": random.numbers(t, n, 2), "l": random.within(1, t + 1, n)} for t, n in ((4, 3), (5, 2))]
    with comparison() as check:
        check("float[A,B,C] x, int64[B] l", "float y", "y = ReverseSequence(x, l)", feeds)


def test_blocks_and_diagonals_of_any_size(random: RandomValues) -> None:
    images = [{"x": random.numbers(1, 8, *size)} for size in ((2, 4), (4, 6))]
    with comparison() as check:
        for mode in ("DCR", "CRD"):
            check("float[N,C,H,W] x", "float y", f'y = DepthToSpace<blocksize = 2, mode = "{mode}">(x)', images)
        check("float[N,C,H,W] x", "float y", "y = SpaceToDepth<blocksize = 2>(x)", images)
        check(
            "float[A,B] x",
            "float y",
            "y = EyeLike<k = 1>(x)",
            [{"x": random.numbers(3, 4)}, {"x": random.numbers(5, 2)}],
        )


def test_features_and_thresholds(random: RandomValues) -> None:
    domain = "ai.onnx.ml"
    feeds = [{"x": random.numbers(n, 4), "i": np.array([[3, 0]])} for n in (1, 3)]
    with comparison() as check:
        body = "y = ai.onnx.ml.ArrayFeatureExtractor(x, i)"
        check("float[A,4] x, int64[1,2] i", "float y", body, feeds, domain=domain)
        body = "y = ai.onnx.ml.Binarizer<threshold = 0.5>(x)"
        given = [{"x": random.numbers(3, 4)}, {"x": np.array([[0.5, np.inf]], np.float32)}]
        check("float[A,B] x", "float y", body, given, domain=domain)


def test_ranges_of_narrow_floats() -> None:
    feeds = [{"s": np.array(s, np.float16), "e": np.array(e, np.float16)} for s, e in ((1, 5), (0.5, 0.25))]
    with comparison() as check:
        body = "a = Cast<to = 1>(s) b = Cast<to = 1>(e) d = Constant<value_float = 0.75>() y = Range(a, b, d)"
        check("float16 s, float16 e", "float y", body, feeds)
