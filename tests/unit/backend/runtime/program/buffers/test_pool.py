"""Runs without states that write to memory of earlier results: whatever a caller does with those, results are right."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from onnx import parser

from caffe2_backend import Predictor, to_netdef
from caffe2_backend.runtime.program.buffers.pool import BufferPool
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import Model
from caffe2_bridge.control.branch import if_arguments
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

Array = np.ndarray[Any, Any]

W = np.arange(6, dtype=np.float32).reshape(2, 3)
X = np.ones((1, 3), np.float32)
OPS = [operator("FC", ["x", "w", "b"], ["h"]), operator("Relu", ["h"], ["y"])]
FILLS = [
    operator("GivenTensorFill", [], ["w"], shape=[2, 3], values=W.ravel().tolist()),
    operator("GivenTensorFill", [], ["b"], shape=[2], values=[-10.0, 1.0]),
]


def expected(x: Array) -> Array:
    result: Array = np.maximum(x @ W.T + [-10, 1], 0)
    return result


class Runs:
    """Runs of a model, in buffers where there are some."""

    def __init__(self, model: Model, **inputs: Any) -> None:
        specs = inputs or {"x": ("float32", ["N", 3])}
        self.session = Session(to_onnx(model, inputs=specs).SerializeToString(), threads=1)
        inputs, outputs = ({name: name for name in names} for names in (self.session.inputs, self.session.outputs))
        self.pool = BufferPool(self.session, {}, outputs, inputs)
        self.count = 0  # of those in buffers

    def run(self, inputs: dict[str, Array]) -> Mapping[str, Array]:
        self.count += self.pool.has_buffers
        found = self.pool.run(inputs)
        return self.session.run(inputs) if found is None else found[0]


def model() -> Model:
    net = NetDef(name="net", op=OPS, external_input=["x", "w", "b"], external_output=["y"])
    return Model.of(net, NetDef(name="init", op=FILLS))


def test_results_that_somebody_holds_stay_as_they_were() -> None:
    runs = Runs(model())
    inputs = [np.full((2, 3), i, np.float32) for i in range(8)]
    whole = [runs.run({"x": x})["y"] for x in inputs]
    rows = [runs.run({"x": x})["y"][1] for x in inputs]
    for x, y, row in zip(inputs, whole, rows, strict=True):
        np.testing.assert_allclose(y, expected(x))
        np.testing.assert_allclose(row, expected(x)[1])


def test_results_may_be_changed() -> None:
    runs = Runs(model())
    for _ in range(5):
        y = runs.run({"x": X})["y"]
        np.testing.assert_allclose(y, expected(X))
        y += 1


def test_the_content_of_an_input_may_change() -> None:
    runs = Runs(model())
    feed = {"x": X.copy()}
    for i in range(5):
        feed["x"][...] = i
        np.testing.assert_allclose(runs.run(feed)["y"], expected(i * X))


def test_results_may_be_inputs() -> None:
    net = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])
    runs = Runs(Model.of(net))
    y = X
    for _ in range(8):
        y = runs.run({"x": y})["y"]
        np.testing.assert_allclose(y, X)


def test_sizes_may_change_and_be_zero() -> None:
    runs = Runs(model())
    for rows in (1, 1, 1, 0, 0, 0, 2, 2, 1, 2, 1):
        x = np.full((rows, 3), 4, np.float32)
        np.testing.assert_allclose(runs.run({"x": x})["y"], expected(x))
        np.testing.assert_allclose(runs.run({"x": np.asfortranarray(-x)})["y"], expected(-x))


def test_threads_share_a_pool() -> None:
    runs = Runs(model())

    def run(number: int) -> bool:
        x = np.full((1, 3), number, np.float32)
        return all(np.array_equal(runs.run({"x": x})["y"], expected(x)) for _ in range(100))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))


def test_outputs_whose_sizes_depend_on_values() -> None:
    ops = [operator("BooleanMask", ["x", "mask"], ["y"])]
    net = NetDef(name="n", op=ops, external_input=["x", "mask"], external_output=["y"])
    runs = Runs(Model.of(net), x=("float32", ["N"]), mask=("bool", ["N"]))
    x = np.arange(4, dtype=np.float32)
    for bits in (1, 1, 1, 3, 3, 15, 0, 0):
        mask = np.array([bits >> i & 1 for i in range(4)], bool)
        np.testing.assert_array_equal(runs.run({"x": x, "mask": mask})["y"], x[mask])
    assert runs.count == 0


def test_sequences_have_no_buffers() -> None:
    text = "g (float[2] x) => (seq(float[2]) s, float[2] y) { s = SequenceConstruct (x, x) y = Neg (x) }"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    predictor = Predictor(to_netdef(model, foreign="carry"))
    for value in range(4):
        given = np.full(2, value, np.float32)
        made = predictor.run({"x": given})
        assert [item.tolist() for item in made["s"]] == [given.tolist()] * 2
        assert made["y"].tolist() == (-given).tolist()


def test_runs_of_equal_shapes_are_in_buffers_from_the_third_on() -> None:
    runs = Runs(model())
    for x in (X, X, X, -X, 2 * X):
        runs.run({"x": x})
    assert runs.count == 3


def test_runs_of_alternating_shapes_are_not_in_buffers() -> None:
    runs = Runs(model())
    for rows in (1, 2, 1, 2, 1, 2):
        runs.run({"x": np.ones((rows, 3), np.float32)})
    assert runs.count == 0


def test_a_pool_that_returns_some_outputs() -> None:
    net = NetDef(name="n", op=[*OPS, operator("Negative", ["y"], ["z"])], external_output=["h", "y", "z"])
    runs = Runs(Model.of(net, NetDef(name="init", op=FILLS)))
    runs.pool = runs.pool.returning(["z", "h"])
    for i in range(5):
        found = runs.run({"x": i * X})
        assert found.keys() == {"h", "z"}
        np.testing.assert_allclose(found["z"], -expected(i * X))
    assert runs.count == 3


def test_a_run_that_fails_in_buffers_fails_without() -> None:
    net = NetDef(name="n", op=[operator("Gather", ["t", "i"], ["y"])], external_input=["t", "i"], external_output=["y"])
    runs = Runs(Model.of(net), t=("float32", ["N"]), i=("int64", ["M"]))
    table = np.arange(3, dtype=np.float32)
    for index in (0, 1, 2, 99, 1, 98):
        feed = {"t": table, "i": np.array([index])}
        if index > 2:
            with pytest.raises(RunError, match="out of data bounds"):
                runs.run(feed)
        else:
            np.testing.assert_array_equal(runs.run(feed)["y"], [index])


def test_a_rank_that_follows_from_values_is_not_that_of_an_earlier_run() -> None:
    """Run branches whose results have as many elements and other ranks, a scalar among them, in turn."""
    longer = NetDef(op=[operator("ExpandDims", ["x"], ["y"], dims=[0])])
    same = NetDef(op=[operator("Copy", ["x"], ["y"])])
    choose = operator("If", ["c", "x"], ["y"], **if_arguments(longer, same))
    net = NetDef(name="net", op=[choose], external_input=["c", "x"], external_output=["y"])
    predictor = Predictor(Model.of(net))
    for condition in (False, False, True, True, False, True):
        (y,) = predictor.run({"c": np.array([condition]), "x": np.float32(3)}).values()
        assert y.shape == (1,) * condition
