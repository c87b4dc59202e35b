"""Operators whose operands broadcast by attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import LAST, X234, F, Spelling, numbers


def spellings() -> Iterator[Spelling]:
    """Yield operators of two operands, of one shape before opset 7 unless ``broadcast`` and ``axis`` aligned them."""
    arithmetic = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power}
    compared = {"Less": np.less, "Greater": np.greater}
    logical = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
    for name, function in (arithmetic | compared | logical | {"Equal": np.equal}).items():
        dtype = {"Equal": np.int32}.get(name, np.bool_ if name in logical else F)
        declared = {np.int32: "int32", np.bool_: "bool"}.get(dtype, "float")
        kind = "float" if name in arithmetic else "bool"
        a = (abs(X234) + 0.5 if name == "Pow" else X234).round(0 if dtype is np.int32 else 4).astype(dtype)

        def put(shape: tuple[int, ...], of: Any = dtype) -> Any:
            values = numbers(*shape, seed=1)
            return np.asarray(values > 0 if of is np.bool_ else values + np.sign(values), of)

        for attributes, dims, aligned in (
            ("broadcast = 1", (3, 4), (3, 4)), ("broadcast = 1", (1,), (1,)), ("broadcast = 1", (), ()),
            ("axis = 1, broadcast = 1", (3,), (3, 1)), ("axis = 0, broadcast = 1", (2, 3), (2, 3, 1)),
            ("axis = 2, broadcast = 1", (4,), (4,)), ("axis = -2, broadcast = 1", (3,), (3, 1)),
            ("axis = 1, broadcast = 1", (1, 1), (1, 1, 1)), ("", (2, 3, 4), (2, 3, 4)),
        ):  # fmt: skip
            b = put(dims)

            def old(x: Any, z: Any, function: Any = function, dims: Any = aligned) -> Any:
                return function(x, z.reshape(dims))

            inputs = f"{declared}[2,3,4] x, {declared}{list(dims) if dims else ''} z"
            node = f"y = {name}<{attributes}>(x, z)" if attributes else f"y = {name}(x, z)"
            last = 6 if attributes else LAST
            yield Spelling(1, last, inputs, node, {"x": a, "z": b}, expected=old, kind=kind)
        inputs = f"{declared}[2,3,4] x, {declared}[3,1] z"
        yield Spelling(7, LAST, inputs, f"y = {name}(x, z)", {"x": a, "z": put((3, 1))}, expected=function, kind=kind)
    for name, sum_of in (("Sum", sum), ("Max", lambda v: np.max(v, 0)), ("Min", lambda v: np.min(v, 0)),
                         ("Mean", lambda v: np.mean(v, 0, dtype=F))):  # fmt: skip

        def of_all(*values: Any, sum_of: Any = sum_of) -> Any:
            return sum_of(np.broadcast_arrays(*values))

        same = {"x": numbers(2, 3), "z": numbers(2, 3, seed=1), "w": numbers(2, 3, seed=2)}
        yield Spelling(
            1, LAST, "float[2,3] x, float[2,3] z, float[2,3] w", f"y = {name}(x, z, w)", same, expected=of_all
        )
        many = {"x": numbers(2, 3), "z": numbers(3, seed=1), "w": numbers(2, 1, seed=2)}
        yield Spelling(8, LAST, "float[2,3] x, float[3] z, float[2,1] w", f"y = {name}(x, z, w)", many, expected=of_all)
    yield from _slopes()
    yield from _gemms()


def _slopes() -> Iterator[Spelling]:
    """Yield PRelu's slopes, one for each channel, the second dim, before opset 7; then broadcast from the right."""

    def channels(x: Any, s: Any) -> Any:
        return np.where(x < 0, x * s.reshape(-1, *[1] * (x.ndim - 2)), x)

    def from_the_right(x: Any, s: Any) -> Any:
        return np.where(x < 0, x * s, x)

    def slope(*shape: int) -> dict[str, Any]:
        return {"x": numbers(2, 3, 4, 3), "s": abs(numbers(*shape, seed=1))}

    yield Spelling(1, 6, "float[2,3,4,3] x, float[3] s", "y = PRelu(x, s)", slope(3), expected=channels)
    yield Spelling(1, 6, "float[2,3,4,3] x, float[1] s", "y = PRelu(x, s)", slope(1), expected=from_the_right)
    yield Spelling(7, LAST, "float[2,3,4,3] x, float[3] s", "y = PRelu(x, s)", slope(3), expected=from_the_right)
    yield Spelling(
        7, LAST, "float[2,3,4,3] x, float[3,1,1] s", "y = PRelu(x, s)", slope(3, 1, 1), expected=from_the_right
    )


def _gemms() -> Iterator[Spelling]:
    def gemm(a: Any, b: Any, c: Any) -> Any:
        return 0.5 * (a.T @ b) + 2 * c

    def feed(*shape: int) -> dict[str, Any]:
        return {"a": numbers(3, 2), "b": numbers(3, 4, seed=1), "c": numbers(*shape, seed=2)}

    ab, attributes = "float[3,2] a, float[3,4] b", "alpha = 0.5, beta = 2.0, transA = 1"
    for dims in ((4,), (1,), (2, 1), (2, 4)):
        inputs = f"{ab}, float{list(dims)} c"
        yield Spelling(1, 6, inputs, f"y = Gemm<{attributes}, broadcast = 1>(a, b, c)", feed(*dims), expected=gemm)
        yield Spelling(7, LAST, inputs, f"y = Gemm<{attributes}>(a, b, c)", feed(*dims), expected=gemm)
    yield Spelling(1, 6, f"{ab}, float[2,4] c", f"y = Gemm<{attributes}>(a, b, c)", feed(2, 4), expected=gemm)
    two = {"a": numbers(3, 2), "b": numbers(3, 4, seed=1)}
    yield Spelling(11, LAST, ab, "y = Gemm<transA = 1>(a, b)", two, expected=lambda a, b: a.T @ b)
