"""Splits of axes without elements."""

from __future__ import annotations

import numpy as np
from support.caffe2_cases import assert_computes

EMPTY = np.zeros((0, 2), np.int64)


def test_an_axis_without_elements_is_split() -> None:
    assert_computes("Split", [EMPTY], [EMPTY] * 3, axis=0)
