"""The ONNX backend interface: values by position and by name, and inputs with defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from caffe2_backend import RunError, prepare, run_model, run_node

TEXT = (
    '<ir_version: 8, opset_import: ["" : 17]> g (float[2] w, float[2] x, float[2] mask) => (float[2] y, float[2] mask) '
    "<float[2] w = {1, 1}, float[2] c = {0, 5}> { a = Add(x, w) b = Mul(c, c) y = Add(a, b) }"
)
MODEL = onnx.parser.parse_model(TEXT)
X, W, MASK = np.zeros(2, np.float32), np.full(2, 100, np.float32), np.array([3, 4], np.float32)


@pytest.mark.parametrize("version", [3, 8])
def test_inputs_with_defaults(version: int) -> None:
    model = onnx.parser.parse_model(TEXT.replace("float[2] mask)", "float[2] mask, float[2] c)", version == 3))
    model.ir_version = version
    prepared = prepare(model)
    for _ in range(2):
        y, mask = prepared.run([X, MASK])
        assert (y.tolist(), mask.tolist()) == ([1, 26], [3, 4])
        assert prepared.run({"x": X, "mask": MASK, "w": W}).y.tolist() == [100, 125]
        assert prepared.run([W, X, MASK] + [np.zeros(2, np.float32)] * (version == 3)).y.tolist()[0] == 100
    assert run_model(model, {"x": X, "mask": MASK, "w": W})[0].tolist() == [100, 125]


def test_values_that_are_not_inputs() -> None:
    prepared = prepare(MODEL)
    with pytest.raises(RunError, match="input 'ww' does not exist: the model has the inputs 'w', "):
        prepared.run({"x": X, "mask": MASK, "ww": W})
    with pytest.raises(RunError, match="the model has 2 inputs, and 1 with defaults, and 1 values were given"):
        prepared.run([X])
    with pytest.raises(RunError, match="input 'mask' is not given"):
        prepared.run({"x": X})


def test_an_input_alone() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    )
    assert prepare(model).run(W).y.tolist() == [-100, -100]


@pytest.mark.parametrize(
    "given", [[np.ones(2, np.float32)], [np.ones(2, np.float32)] * 3, {"a": np.ones(2, np.float32)}]
)
def test_a_node_takes_a_value_for_each_of_its_inputs(given: Any) -> None:
    with pytest.raises(RunError, match=r"the node has 2 inputs|input 'b' is not given"):
        run_node(onnx.NodeProto(op_type="Add", input=["a", "b"], output=["c"]), given)
