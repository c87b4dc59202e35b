"""Weighted sampling: how often each index is drawn."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator
from support.exports import export, run


def test_weighted_sample_draws_by_weight() -> None:
    op = operator("WeightedSample", ["W"], ["I"])
    op.device_option.random_seed = 3
    model = export(op, {"W": ("float32", ("N", 3))})
    weights = np.tile(np.array([1, 0, 3], np.float32), (4000, 1))
    (drawn,) = run(model, {"W": weights})
    assert drawn.shape == (4000, 1)
    counts = np.bincount(drawn[:, 0], minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 1000) < 150


def test_multi_sampling_reads_weights_as_their_sums() -> None:
    op = operator("WeightedMultiSampling", ["W"], ["I"], num_samples=3000)
    op.device_option.random_seed = 4
    (drawn,) = run(export(op, {"W": ("float32", (None,))}), {"W": np.array([1, 1, 4], np.float32)})
    counts = np.bincount(drawn, minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 750) < 150
