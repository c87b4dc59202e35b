"""Dropout of sparse segments: how many are dropped."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import export, run


@pytest.mark.parametrize("ratio", [0.25, 0.75])
def test_dropped_segments_are_as_many_as_the_ratio_says(ratio: float) -> None:
    op = operator("SparseDropoutWithReplacement", ["X", "L"], ["Y", "M"], ratio=ratio, replacement_value=-7)
    op.device_option.random_seed = 3
    model = export(op, {"X": ("int64", ("N",)), "L": ("int32", ("S",))})
    values, lengths = run(model, {"X": np.arange(20_000), "L": np.full(10_000, 2, "int32")})
    assert abs((lengths == 1).mean() - ratio) < 0.02
    assert (values == -7).sum() == (lengths == 1).sum()
    assert len(values) == lengths.sum()
    kept = values[values != -7]
    np.testing.assert_array_equal(kept[1::2], kept[::2] + 1)
