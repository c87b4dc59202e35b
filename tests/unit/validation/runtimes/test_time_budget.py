"""Calls that are given up when they take too long."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import numpy as np
import onnx
import pytest

from caffe2_validation.runtimes.onnx_reference import OnnxReference
from caffe2_validation.runtimes.time_budget import OutOfTimeError, within


def test_results_and_errors_come_through() -> None:
    assert within(60, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(60, lambda: 1 // 0)
    with pytest.raises(TimeoutError, match="its own"):
        within(60, lambda: (_ for _ in ()).throw(TimeoutError("its own")))


def test_a_call_that_takes_too_long_is_ended() -> None:
    ended = threading.Event()

    def count() -> None:
        try:
            while True:
                with suppress(Exception):
                    np.ones(2) + 1
        finally:
            ended.set()

    start = time.monotonic()
    with pytest.raises(OutOfTimeError, match=r"it did not answer within 0\.05 seconds"):
        within(0.05, count)
    assert time.monotonic() - start < 30
    assert ended.wait(30)


def test_the_reference_evaluator_has_a_budget() -> None:
    """Evaluate a loop, which the evaluator goes through in Python."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (int64 n, float x) => (float y) { y = Loop(n, , x) <body = b '
        "(int64 i, bool c, float s) => (bool d, float t) { d = Identity(c) t = Neg(s) }> }"
    )
    x = np.array(1, np.float32)
    loaded = OnnxReference(seconds=1).load(model)
    assert loaded.run({"n": np.array(3), "x": x})["y"] == -1
    with pytest.raises(OutOfTimeError, match="it did not answer within 1 seconds"):
        loaded.run({"n": np.array(10**9), "x": x})
