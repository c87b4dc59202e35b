"""A model that is given as a message stays as it was, also where the import renames its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import parser

from caffe2_backend import Predictor, to_netdef

# The branches have initializers of one name, one of which is the output of its branch.
BRANCHES = """<ir_version: 10, opset_import: ["": 20]>
g (float[N,2] x, bool c) => (float[M,2] y) <float[1,2] w = {7, 8}> {
    z = Add(x, w)
    y = If(c) <
        then_branch = a () => (float[1,2] p) <float[1,2] p = {5, 6}> { },
        else_branch = b () => (float[K,2] q) <float[1] v = {1}> {
            k = Constant<value = float[1] k {2}>() q0 = Add(z, k) q = Add(q0, v)
        }
    >
}"""


@pytest.mark.parametrize("foreign", ["error", "carry"])
def test_the_message_does_not_change(foreign: Any) -> None:
    model = parser.parse_model(BRANCHES)
    before = model.SerializeToString(deterministic=True)
    x = np.ones((3, 2), np.float32)
    for _ in range(2):
        predictor = Predictor(to_netdef(model, foreign=foreign))
        assert model.SerializeToString(deterministic=True) == before
        found = [predictor.run({"x": x, "c": np.array(c)})["y"] for c in (True, False)]
        np.testing.assert_array_equal(found[0], [[5, 6]])
        np.testing.assert_array_equal(found[1], x + np.array([[10, 11]]))
