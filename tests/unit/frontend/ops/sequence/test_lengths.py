"""Operands of operators on lengths that Caffe2 does not take."""

from __future__ import annotations

import numpy as np
from support.caffe2_cases import assert_refused


def test_a_length_must_be_in_a_vector() -> None:
    assert_refused("LengthsTopK", [np.zeros((), np.float32), np.array(0, np.int32)], outputs=2, k=1)
