"""Streams of steps, whose states stay in the session's memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.training import classifier_data, linear_classifier

from caffe2_backend import OptionError, Predictor, RunError, Workspace
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

INIT = [operator("GivenTensorFill", [], ["w"], shape=[2, 2], values=[0.5, 0.25, -0.5, 1.0])]
OPS = [
    operator("MatMul", ["h", "w"], ["hw"]),
    operator("Add", ["hw", "x"], ["sum"]),
    operator("Tanh", ["sum"], ["next"]),
    operator("Mul", ["next", "x"], ["y"]),
]
W = np.array([[0.5, 0.25], [-0.5, 1.0]], np.float32)
STATES = {"h": "next"}


def model() -> Model:
    net = NetDef(name="n", op=OPS, external_input=["h", "x", "w"], external_output=["y", "next"])
    return Model.of(net, NetDef(name="init", op=INIT))


def inputs(count: int, rows: int = 1) -> Iterator[dict[str, Any]]:
    random = np.random.default_rng(0)
    yield {"x": random.random((rows, 2), np.float32), "h": random.random((rows, 2), np.float32)}
    for _ in range(count - 1):
        yield {"x": random.random((rows, 2), np.float32)}


def expected(steps: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    state, results = None, []
    for given in steps:
        state = np.tanh(given.get("h", state) @ W + given["x"])
        results.append({"next": state, "y": state * given["x"]})
    return results


def check(results: list[dict[str, Any]], steps: Iterator[dict[str, Any]]) -> None:
    wanted = expected(steps)
    assert len(results) == len(wanted)
    for ours, theirs in zip(results, wanted, strict=True):
        assert ours.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_allclose(ours[name], array, rtol=1e-5, atol=1e-6)


def test_results_of_all_steps_stay_as_they_were() -> None:
    check(list(Predictor(model()).run_many(inputs(12), STATES)), inputs(12))


def test_results_may_be_dropped() -> None:
    (last,) = deque(Predictor(model()).run_many(inputs(12), STATES), maxlen=1)
    np.testing.assert_allclose(last["y"], expected(inputs(12))[-1]["y"], rtol=1e-5)


def test_steps_are_run_when_they_are_asked_for() -> None:
    taken = []

    def steps() -> Iterator[dict[str, Any]]:
        for index, given in enumerate(inputs(5)):
            taken.append(index)
            yield given

    stream = Predictor(model()).run_many(steps(), STATES)
    assert taken == []
    next(stream)
    assert taken == [0]


def test_a_step_may_replace_the_states_and_change_sizes() -> None:
    def steps() -> Iterator[dict[str, Any]]:
        yield from inputs(3)
        yield from inputs(4)
        yield from inputs(3, rows=5)

    check(list(Predictor(model()).run_many(steps(), STATES)), steps())


def test_streams_of_one_predictor_are_independent() -> None:
    predictor = Predictor(model())
    first, second = predictor.run_many(inputs(6), STATES), predictor.run_many(inputs(6, rows=2), STATES)
    pairs = list(zip(first, second, strict=True))
    check([a for a, _ in pairs], inputs(6))
    check([b for _, b in pairs], inputs(6, rows=2))


def test_an_onnx_model_runs_step_by_step() -> None:
    onnx_model = to_onnx(model(), inputs={"x": (np.float32, ("N", 2)), "h": (np.float32, ("N", 2))})
    check(list(Predictor(onnx_model).run_many(inputs(4), STATES)), inputs(4))


def test_states_must_be_inputs_that_outputs_feed() -> None:
    predictor = Predictor(model())
    with pytest.raises(OptionError, match="state 'z' is not an input of the model: its inputs are h, x"):
        predictor.run_many([], {"z": "next"})
    with pytest.raises(OptionError, match="does not output 'hw', which feeds state 'h'"):
        predictor.run_many([], {"h": "hw"})


def test_the_first_step_has_the_initial_states() -> None:
    with pytest.raises(RunError, match="h"):
        next(Predictor(model()).run_many([{"x": np.ones((1, 2), np.float32)}], STATES))


def test_batches_need_no_states() -> None:
    predictor = Predictor(model())
    batches = [next(inputs(1, rows=rows)) for rows in (1, 1, 1, 4, 2, 2, 2)]
    results = list(predictor.run_many(batches))
    assert len(results) == len(batches)
    for batch, result in zip(batches, results, strict=True):
        (wanted,) = expected(iter([batch]))
        np.testing.assert_allclose(result["y"], wanted["y"], rtol=1e-5)


def test_an_exported_training_net_trains() -> None:
    """Its parameters have defaults: the first step need not give them, and later ones get those of the step before."""
    net, init = linear_classifier()
    data = classifier_data(8)
    exported = to_onnx(net, init, inputs={name: (value.dtype, value.shape) for name, value in data.items()})
    updates = json.loads(next(p.value for p in exported.metadata_props if p.key == "caffe2.parameters.updated"))
    predictor = Predictor(exported)
    steps = list(predictor.run_many([data] * 5, updates))
    losses = [float(step["loss"]) for step in steps]
    assert losses == sorted(losses, reverse=True)
    state: dict[str, Any] = {}
    for expected in losses:  # the same by hand
        found = predictor.run({**data, **state})
        assert float(found["loss"]) == pytest.approx(expected, rel=1e-6)
        state = {name: found[output] for name, output in updates.items()}
    workspace = Workspace()
    workspace.run_net_once(init)
    for name, value in data.items():
        workspace.feed(name, value)
    for expected in losses:
        workspace.run_net_once(net)
        assert float(workspace.fetch("loss")) == pytest.approx(expected, rel=1e-5)
