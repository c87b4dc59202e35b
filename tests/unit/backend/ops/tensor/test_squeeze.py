"""Squeeze and reductions whose axes, or sizes, are known at run time alone: their strict nets run here, too."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_bridge import Model

SHAPES = ((3, 1, 4), (1, 5, 1), (2, 3, 4), (1, 1, 1))


def imported(inputs: str, output: str, body: str) -> Model:
    return to_netdef(
        parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g ({inputs}) => ({output}) {{ {body} }}')
    )


@pytest.mark.parametrize("body", ["s = Squeeze(x) y = Sigmoid(s)", "y = Squeeze(x)"])
def test_the_declared_rank_says_which_axes_have_one_element(body: str) -> None:
    net = imported("float[N,1,M] x", "float[N,M] y", body)
    assert net.predict_net.op[0].type == "Squeeze"
    assert list(net.predict_net.op[0].arg[0].ints) == [1]
    y = Predictor(net).run({"x": np.zeros((3, 1, 1), np.float32)})["y"]
    assert y.shape == (3, 1)


@pytest.mark.parametrize("output", ["float y", "float[N] y"])
def test_sizes_that_are_known_at_run_time_alone(output: str) -> None:
    """A declared rank that the known sizes do not explain is not believed."""
    predictor = Predictor(imported("float[A,B,C] x", output, "s = Squeeze(x) y = Neg(s)"))
    for shape in SHAPES:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(predictor.run({"x": x})["y"], -x.squeeze())


@pytest.mark.parametrize("body", ["y = Squeeze(x, axes)", "y = ReduceSum <keepdims = 0> (x, axes)"])
def test_the_number_of_computed_axes_is_the_rank_of_the_result(body: str) -> None:
    predictor = Predictor(imported("float[2,1,3] x, int64[1] axes", "float y", body))
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    for axis in (1, -2):
        assert predictor.run({"x": x, "axes": np.array([axis])})["y"].tolist() == x.squeeze(1).tolist()


def test_an_empty_list_of_axes_names_all_of_one_element() -> None:
    x = np.zeros((3, 1, 5, 1), np.float32)
    net = imported("float[3,1,5,1] x", "float y", "axes = Constant <value = int64[0] {}> () y = Squeeze(x, axes)")
    assert Predictor(net).run({"x": x})["y"].shape == (3, 5)
