"""Operands without elements, as of images in which nothing is detected, in real Caffe2 and on onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from support.strict_import import Comparison, comparison

pytestmark = pytest.mark.oracle

UNARY = (
    "Abs", "Celu", "Exp", "Gelu", "HardSwish", "Identity", "LeakyRelu", "LogSoftmax", "Mish", "Neg", "Relu", "Round",
    "Selu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Tanh", "ThresholdedRelu", "Transpose", "Flatten", "Hardmax",
    "ReduceSum", "ReduceL2", "ReduceSumSquare", "ReduceProd", "Trilu", "Dropout",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Mod<fmod = 1>", "PRelu", "Sum", "Mean")
COMPARISONS = ("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")
PAIRS = (
    ((0, 3), (1, 3)), ((0, 3), (0, 3)), ((0, 1), (1, 3)), ((0, 3), (0, 1)), ((2, 0), (1, 1)), ((2, 1), (2, 0)),
    ((2, 1), (1, 3)),
)  # fmt: skip
NUMBERS = {"float": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "double": 11}
# By what a body computes of x, and the sizes of x.
BODIES = (
    ("a = Constant<value = int64[1] {1}>() y = Gather<axis = 1>(x, a)", (0, 3)),
    ("n = Shape(x) y = ConstantOfShape(n)", (0, 3)),
    ("s = Constant<value = int64[2] {-1, 3}>() y = Reshape<allowzero = 1>(x, s)", (0, 3)),
    ("a = Constant<value = int64[1] {-1}>() z = Constant<value = int64[1] {0}>() y = Slice(x, z, a, z)", (0, 3)),
    ("p = Constant<value = int64[4] {1, 0, 1, 0}>() y = Pad(x, p)", (0, 3)),
    ("r = Constant<value = int64[2] {2, 1}>() y = Tile(x, r)", (0, 3)),
    ("k = Constant<value = int64[1] {0}>() y, i = TopK(x, k)", (2, 3)),
    ("k = Constant<value = int64[1] {2}>() y, i = TopK(x, k)", (0, 3)),
    ("a = Constant<value = int64 {0}>() y = CumSum(x, a)", (0, 3)),
    ("n = NonZero(x) t = Transpose(n) y = GatherND(x, t)", (0, 3)),
    ("i = Cast<to = 7>(x) y = GatherElements(x, i)", (0, 3)),
    ("i = Cast<to = 7>(x) y = ScatterElements(x, i, x)", (0, 3)),
    ("i = Cast<to=7>(x) d = Constant<value=int64{4}>() v = Constant<value=float[2]{0,1}>() y = OneHot(i,d,v)", (0, 3)),
    ('y = Einsum<equation = "ij,kj->ik">(x, x)', (0, 3)),
)  # fmt: skip


def feed(**shapes: tuple[int, ...]) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def add(check: Comparison, outputs: str, body: str, *pairs: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check("float[N, M] x, float[K, L] w", outputs, body, [feed(x=x, w=w) for x, w in pairs])


def test_functions() -> None:
    with comparison() as check:
        for function in UNARY:
            shapes = ((0, 3), (2, 0)) if function not in ("Softmax", "LogSoftmax", "Hardmax") else ((0, 3),)
            check("float[N, M] x", "float y", f"y = {function}(x)", [feed(x=shape) for shape in shapes])
        for body, shape in BODIES:
            check("float[N, M] x", "float y", body, [feed(x=shape)])


def test_broadcasts() -> None:
    with comparison() as check:
        for function in BINARY:
            add(check, "float y", f"y = {function}(x, w)", *PAIRS)
        for function in COMPARISONS:
            add(check, "bool y", f"y = {function}(x, w)", *PAIRS)
        add(check, "float y", "c = Cast<to = 9>(x) y = Where(c, x, w)", *PAIRS)
        for dtype, number in NUMBERS.items():
            add(check, f"{dtype} y", f"a = Cast<to = {number}>(x) s = Shape(w) y = Expand(a, s)", *PAIRS)
            if dtype != "bool":
                both = f"a = Cast<to = {number}>(x) b = Cast<to = {number}>(w)"
                add(check, f"{dtype} y", f"{both} y = Max(a, b)", *PAIRS)


def test_numbers_of_double_precision_are_expanded() -> None:
    with comparison() as check:
        for number in ("0.1", "0.5"):
            body = f"a = Constant<value = double {{{number}}}>() s = Shape(x) y = Expand(a, s)"
            check("float[N, M] x", "double y", body, [feed(x=(0, 3)), feed(x=(2, 1))])


def test_dims_that_are_kept_or_inferred() -> None:
    with comparison() as check:
        for sizes, dims, shapes in (
            ("0, 0, 1", "N, 3", [(0, 3), (2, 3)]),
            ("0, -1", "N, 4", [(3, 4)]),
            ("0, -1, 2", "N, 4", [(3, 4)]),
            ("-1, 0, 1", "2, N", [(2, 3)]),
            ("0, -1", "N, 2, 3", [(4, 2, 3)]),
            ("3, -1", "N, 4", [(3, 4)]),
        ):
            given = f"s = Constant<value = int64[{sizes.count(',') + 1}] {{{sizes}}}>()"
            check(f"float[{dims}] x", "float y", f"{given} y = Reshape(x, s)", [feed(x=shape) for shape in shapes])


BODY = (
    "(int64 k, bool cc) => (bool co, float[N, 3] y1, int64 i1, bool[2] b1, float16 h1, double[3] d1, int32 j1) {"
    " co = Identity(cc) f = Cast<to = 1>(k) y1 = Add(x, f) i1 = Identity(k) one = Constant<value = bool[2] {1, 0}>()"
    " b1 = Identity(one) h1 = Cast<to = 10>(f) n = Constant<value = int64[1] {3}>() g = Cast<to = 11>(k)"
    " d1 = Expand(g, n) j1 = Cast<to = 6>(k) }"
)


def test_what_no_iterations_stack() -> None:
    outputs = "float[T, N, 3] y, int64[T] i, bool[T, 2] b, float16[T] h, double[T, 3] d, int32[T] j"
    with comparison() as check:
        check(
            "int64 M, bool c, float[N, 3] x",
            outputs,
            f"y, i, b, h, d, j = Loop(M, c) <body = body {BODY}>",
            [
                {"M": np.array(trips), "c": np.array(condition), **feed(x=(2, 3))}
                for trips, condition in ((0, True), (2, False), (2, True))
            ],
        )


def test_a_loop_that_runs_has_no_branch() -> None:
    with comparison() as check:
        check(
            "float[N, 3] x",
            "float[T, N, 3] y",
            "t = Constant<value = int64 {2}>() c = Constant<value = bool {1}>() "
            f"y, i, b, h, d, j = Loop(t, c) <body = body {BODY}>",
            [feed(x=(2, 3))],
        )
    assert [op.type for op in check.runs[0].net.op] == ["ONNXWhile"]
