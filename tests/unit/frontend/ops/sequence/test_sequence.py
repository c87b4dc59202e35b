"""Operands of sequences that Caffe2 does not take."""

from __future__ import annotations

import numpy as np
from support.caffe2_cases import assert_refused


def test_bools_are_not_padded() -> None:
    assert_refused("VariableLengthSequencePadding", [np.ones((1, 1, 1), bool), np.zeros(1, np.int32)])
