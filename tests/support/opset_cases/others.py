"""Recurrent and other operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from support.opset_cases.spelling import LAST, X234, Expected, F, Spelling, constant, numbers


def spellings() -> Iterator[Spelling]:
    """Yield every spelling."""
    x, one = X234, "float[2,3,4] x"
    for attributes, first, last in (
        ("<is_test = 1>", 1, 6),
        ("<is_test = 1, ratio = 0.3>", 1, 6),
        ("", 7, LAST),
        ("<ratio = 0.3>", 7, 11),
    ):
        yield Spelling(first, last, one, f"y = Dropout{attributes}(x)", {"x": x}, expected=lambda x: x)
    yield Spelling(12, LAST, one, "y = Dropout(x, r)", {"x": x}, "<float r = {0.3}>", lambda x: x)
    yield Spelling(
        1,
        LAST,
        "float[2,3] x, float[3,4] z",
        "y = MatMul(x, z)",
        {"x": numbers(2, 3), "z": numbers(3, 4)},
        expected=np.matmul,
    )
    chosen = {"x": np.array([True, False, True]), "z": numbers(3), "w": numbers(3, seed=1)}
    yield Spelling(9, LAST, "bool[3] x, float[3] z, float[3] w", "y = Where(x, z, w)", chosen, expected=np.where)
    signs = {"x": np.array([-7, 7, 5], np.int32), "z": np.array([3, -3, 3], np.int32)}
    yield Spelling(10, LAST, "int32[3] x, int32[3] z", "y = Mod(x, z)", signs,
                   kind="int32", expected=np.mod)  # fmt: skip
    steps = {
        "x": numbers(4, 2, 3),
        "w": numbers(1, 8, 3, seed=1),
        "r": numbers(1, 8, 2, seed=2),
        "b": numbers(1, 16, seed=3),
    }
    for name, gates in (("LSTM", 4), ("RNN", 1), ("GRU", 3)):
        cut = {
            "x": steps["x"],
            "w": steps["w"][:, : 2 * gates],
            "r": steps["r"][:, : 2 * gates],
            "b": steps["b"][:, : 4 * gates],
        }
        inputs = f"float[4,2,3] x, float[1,{2 * gates},3] w, float[1,{2 * gates},2] r, float[1,{4 * gates}] b"
        # A model of an early opset may ask for the whole sequence, which later ones give anyway.
        # Before opset 3 a GRU must have both outputs.
        for attributes, first, last in ((", output_sequence = 1", 3 if name == "GRU" else 1, 6), ("", 7, LAST)):
            node = f"y = {name}<hidden_size = 2{attributes}>(x, w, r, b)"
            yield Spelling(first, last, inputs, node, cut, expected=_recurrent(name))
        node = (
            f"n, y = {name}<hidden_size = 2>(x, w, r, b)"
            if name != "LSTM"
            else "n, y, c = LSTM<hidden_size = 2>(x, w, r, b)"
        )
        yield Spelling(1, LAST, inputs, node, cut, expected=_last(_recurrent(name)))
    plain = {"x": numbers(3, 4), "s": np.array(0.1, F), "z": np.array(3, np.uint8)}
    inputs = "float[3,4] x, float s, uint8 z"
    yield Spelling(10, 22, inputs, "y = QuantizeLinear(x, s, z)", plain, kind="uint8")
    each = {"x": numbers(3, 4), "s": np.array([0.1, 0.2, 0.3], F), "z": np.array([3, 4, 5], np.uint8)}
    yield Spelling(
        13, 22, "float[3,4] x, float[3] s, uint8[3] z", "y = QuantizeLinear<axis = 0>(x, s, z)", each, kind="uint8"
    )
    wave = {"x": numbers(1, 8, 1)}
    yield Spelling(17, 19, "float[1,8,1] x", "y = DFT<axis = 1>(x)", wave)
    yield Spelling(20, LAST, "float[1,8,1] x", "y = DFT(x, , a)", wave, "<int64 a = {1}>")
    groups = {"x": numbers(2, 4, 3), "s": numbers(2, seed=1), "b": numbers(2, seed=2)}

    def grouped(x: Any, s: Any, b: Any) -> Any:
        rows = x.reshape(2, 2, -1)
        rows = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + F(1e-5))
        return rows.reshape(2, 4, 3) * s.reshape(-1, 1) + b.reshape(-1, 1)

    node = "y = GroupNormalization<num_groups = 2>(x, s, b)"
    yield Spelling(18, 20, "float[2,4,3] x, float[2] s, float[2] b", node, groups,
                   expected=lambda x, s, b: grouped(x, s.repeat(2), b.repeat(2)))  # fmt: skip
    groups = {"x": numbers(2, 4, 3), "s": numbers(4, seed=1), "b": numbers(4, seed=2)}
    yield Spelling(
        21,
        LAST,
        "float[2,4,3] x, float[4] s, float[4] b",
        "y = GroupNormalization<num_groups = 2>(x, s, b)",
        groups,
        expected=grouped,
    )
    shape = {"x": np.array([2, 3])}
    node = "y = ConstantOfShape<value = float[1] {3}>(x)"
    yield Spelling(9, LAST, "int64[2] x", node, shape, expected=constant(np.full((2, 3), F(3))))


def _last(function: Expected) -> Expected:
    return lambda *values: function(*values)[-1]


def _recurrent(kind: str) -> Expected:
    def sigmoid(v: Any) -> Any:
        return 1 / (1 + np.exp(-v))

    def run(x: Any, w: Any, r: Any, b: Any) -> Any:
        size = r.shape[-1]
        bias_w, bias_r = np.split(b[0], 2)
        h = c = np.zeros((x.shape[1], size), F)
        rows = []
        for row in x:
            a, e = row @ w[0].T + bias_w, h @ r[0].T + bias_r
            if kind == "RNN":
                h = np.tanh(a + e)
            elif kind == "LSTM":
                i, o, f, g = np.split(a + e, 4, -1)
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
            else:
                (z, k, n), (ez, ek, _) = np.split(a, 3, -1), np.split(e, 3, -1)
                z, k = sigmoid(z + ez), sigmoid(k + ek)
                n = np.tanh(n + (k * h) @ r[0][2 * size :].T + bias_r[2 * size :])
                h = (1 - z) * n + z * h
            rows.append(h[None])
        return np.stack(rows)

    return run
