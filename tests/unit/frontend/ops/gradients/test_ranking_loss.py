"""Gradients of ranking losses: sessions of sizes of run time, against differences of the losses."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator
from support.exports import Specs, export, run


def loss(x: np.ndarray, labels: np.ndarray) -> float:  # type: ignore[type-arg] # of float64
    pairs = [(i, j) for i in range(len(x)) for j in range(i) if labels[i] != labels[j]]
    losses = [np.log1p(np.exp(-np.sign(labels[i] - labels[j]) * (x[i] - x[j]))) for i, j in pairs]
    return float(np.mean(losses)) if losses else 0.0


def test_sessions_of_run_time() -> None:
    specs: Specs = dict.fromkeys(("X", "label", "dY"), ("float32", ("N",))) | {"dY": ("float32", ("S",))}
    specs["lengths"] = ("int32", ("S",))
    model = export(operator("PairWiseLossGradient", list(specs), ["dX"]), specs)
    rng = np.random.default_rng(0)
    lengths, x, labels = [3, 0, 1, 4], rng.standard_normal(8), np.array([0, 1, 1, 2, 0, 1, 2, 0])
    weights = np.array([1, 2, 3, 4], np.float32)
    expected, step, start = np.zeros(8), 1e-6, 0
    for weight, count in zip(weights, lengths, strict=True):
        part = slice(start, start + count)
        for i in range(start, start + count):
            moved = [x + sign * step * (np.arange(8) == i) for sign in (1, -1)]
            ahead, behind = (loss(v[part], labels[part]) for v in moved)
            expected[i] = weight * (ahead - behind) / (2 * step)
        start += count
    inputs = {"X": x.astype(np.float32), "label": labels.astype(np.float32), "dY": weights}
    (dx,) = run(model, {**inputs, "lengths": np.array(lengths, np.int32)})
    np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-5)
