"""Random values: which values depend on them, and what a validation does with them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from support.cells import fills
from support.nets import net, op

from caffe2_backend import validate
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.comparison.random_operators import draw_fills, random_values
from caffe2_validation.render.page import page

SIDES = ("workspace", "onnxruntime-cpu", "onnx-reference")
X = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
TWO = Model.of(net(
    op("Relu", "x", "y"), op("Dropout", "x", "d mask", ratio=0.5, is_test=0), op("Exp", "d", "z"),
    op("Shape", "z", "s"), outputs="y z s",
))  # fmt: skip


def random_in(*ops: object) -> set[str]:
    return set(random_values(Model.of(net(*ops))))  # type: ignore[arg-type]


def test_operators_that_draw_for_some_arguments() -> None:
    assert random_in(op("Dropout", "x", "y m", is_test=1)) == set()
    assert random_in(op("Dropout", "x", "y m")) == {"y", "m"}
    assert random_in(op("FloatToFusedRandRowwiseQuantized", "x", "y", random=0)) == set()
    assert random_in(op("FloatToFusedRandRowwiseQuantized", "x", "y")) == {"y"}
    assert random_in(operator("ATen", ["x"], ["y"], operator="randn")) == {"y"}
    assert random_in(operator("ATen", ["x"], ["y"], operator="exp")) == set()
    assert random_in(op("WeightedSample", "x", "y")) == {"y"}


def test_values_are_random_until_they_are_overwritten() -> None:
    assert random_values(TWO) == {"d", "mask", "z"}
    assert random_in(op("GaussianFill", "", "y", shape=[2]), op("Relu", "x", "y")) == set()


def test_bodies_draw_for_the_operators_around_them() -> None:
    branch = NetDef(op=[op("UniformFill", "", "y", shape=[2])], external_output=["y"])
    assert random_in(operator("If", ["c"], ["y"], then_net=branch), op("Exp", "y", "z")) == {"y", "z"}


def test_onnx_nodes() -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        g (float[3] x, bool c) => (float[3] y, float[3] z, float[3] i, float[3] t)
        <bool on = {1}, bool off = {0}, float r = {0.5}> {
          n = RandomNormalLike(x)
          y = Add(x, n)
          z, m = Dropout(x, r, off)
          t = Dropout(x, r, on)
          i = If (c) <then_branch = one () => (float[3] a) { a = RandomUniform <shape = [3]> () },
                      else_branch = two () => (float[3] b) { b = Relu(x) }>
        }""")
    assert random_values(model) == {"n", "y", "t", "i"}


def test_random_outputs_are_left_out_with_a_note() -> None:
    report = validate(TWO, X, SIDES)
    assert report.agrees, report.to_json()
    assert "random values, of which only shape and dtype are compared: 'z'" in report.notes
    rows = {(r.name, r.difference.verdict, r.difference.numbers[0]) for r in report.results}
    assert rows == {("y", "agrees", "0.0e+00"), ("z", "not compared", ""), ("s", "agrees", "0.0e+00")}
    assert {r.to_dict()["compared"] for r in report.results if r.name == "z"} == {False}
    assert page(report).count(">not compared<") == 2


def test_random_outputs_alone_are_no_agreement_of_values() -> None:
    model = Model.of(net(op("Dropout", "x", "y m", ratio=0.5, is_test=0), outputs="y"))
    report = validate(model, X, SIDES, matrix=True)
    assert report.verdict_text == "agree (shapes and dtypes of outputs; no number is compared)"
    assert str(report.pairs["workspace", "onnx-reference"]) == "-"


@pytest.mark.oracle
def test_random_outputs_are_left_out_with_real_caffe2_as_a_side() -> None:
    report = validate(TWO, X, ("caffe2", *SIDES))
    assert report.agrees, report.to_json()
    assert "random values, of which only shape and dtype are compared: 'z'" in report.notes
    assert validate(TWO, X, (*SIDES[1:], "caffe2")).agrees


WEIGHTS = NetDef(name="init", op=[
    op("XavierFill", "", "w", shape=[5, 4]), op("GaussianFill", "", "b", shape=[5]), op("Copy", "w", "v"),
    *fills({"scale": np.ones(1, np.float32)}).op,
])  # fmt: skip
LAYER = Model.of(
    NetDef(name="n", op=[op("FC", "x w b", "y")], external_input=["x", "w", "b"], external_output=["y"]), WEIGHTS
)


def test_random_fills_are_drawn_once() -> None:
    drawn, names = draw_fills(LAYER)
    assert names == ("w", "b")
    assert [each.type for each in drawn.init_net.op] == [
        "GivenTensorFill",
        "GivenTensorFill",
        "Copy",
        "GivenTensorFill",
    ]
    for name in ("w", "b", "v"):
        np.testing.assert_array_equal(drawn.params[name], LAYER.params[name])
    assert draw_fills(drawn) == (drawn, ())


@pytest.mark.oracle
def test_real_caffe2_gets_the_same_random_weights() -> None:
    report = validate(LAYER, X, ("caffe2", "onnxruntime-cpu"))
    assert report.agrees, report.to_json()
    assert report.wrong == ()
    assert "random fills of the init net, drawn once for all runtimes: 2 ('w', 'b')" in report.notes
