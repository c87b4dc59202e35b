"""Rows that are rounded to codes at random, or to the nearest one."""

from __future__ import annotations

import numpy as np
from support.caffe2_cases import assert_computes


def test_an_element_halfway_between_two_codes() -> None:
    row = np.array([[0, 0.5, 1, 0.5]], np.float32)
    codes = np.array([[2, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0b01110100]], np.uint8)
    assert_computes("FloatToFusedRandRowwiseQuantized", [row], [codes], bitwidth=2, random=0)
