"""Imported control flow over vectors whose lengths change, against onnxruntime on the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from support.random_loops import RandomLoops

from caffe2_backend import Predictor, to_netdef

SEEDS = range(6)
MORE_SEEDS = range(6, 120)


def compare(seed: int) -> None:
    drawn = RandomLoops(seed)
    if not drawn.outputs:
        return
    options = onnxruntime.SessionOptions()
    # Its optimizations are not what is tested.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(drawn.model.SerializeToString(), options, ["CPUExecutionProvider"])
    ways: list[dict[str, Any]] = [{}, {"foreign": "carry"}]
    predictors = [Predictor(to_netdef(drawn.model, **way)) for way in ways]
    for feed in drawn.feeds():
        try:
            expected = session.run(drawn.outputs, feed)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:  # the maximum of no elements
            continue
        for predictor in predictors:
            results = predictor.run(feed)
            for name, value in zip(drawn.outputs, expected, strict=True):
                np.testing.assert_allclose(results[name], value, rtol=1e-4, atol=1e-5, err_msg=f"{seed}: {name}")
                assert results[name].shape == value.shape


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int) -> None:
    compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_more_random_loops(seed: int) -> None:
    compare(seed)
