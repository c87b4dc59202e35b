"""Cells in many spellings become LSTM, GRU and RNN operators, and compute what the step net computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_frontend import to_onnx

Array = np.ndarray[Any, Any]

LSTMS: dict[str, Recurrent] = {
    "as Caffe2's helper writes it": cells.lstm(),
    "states dropped": cells.lstm(drop=True),
    "without lengths": cells.lstm(mask="none"),
    "forget bias as argument": cells.lstm(forget="argument"),
    "Add for Sum, swapped": cells.lstm(add="Add", swapped=True),
    "four dense layers": cells.lstm(gates="four"),
    "projection in the step": cells.lstm(projection="inside"),
    "four dense layers, projection in the step": cells.lstm(gates="four", projection="inside", mask="none"),
    "spelled out": cells.lstm(unit=False, mask="none"),
    "spelled out, swapped": cells.lstm(unit=False, mask="none", add="Add", swapped=True),
    "spelled out, forget bias added": cells.lstm(unit=False, mask="none", forget="scalar"),
    "spelled out, vector of forget biases": cells.lstm(unit=False, mask="none", forget="vector"),
    "spelled out with masks": cells.lstm(unit=False, mask="product"),
    "spelled out with masks, dropped": cells.lstm(unit=False, mask="product", drop=True),
    "spelled out, four layers, projection in the step": cells.lstm(
        unit=False, gates="four", projection="inside", mask="product", forget="vector", swapped=True
    ),
    "unit with masks of its own": cells.lstm(mask="product", forget="argument"),
}
GRUS: dict[str, Recurrent] = {
    "unit": cells.gru(),
    "unit, states dropped": cells.gru(drop=True),
    "unit, reset first": cells.gru(before_reset=False),
    "unit without lengths": cells.gru(mask="none"),
    "spelled out": cells.gru(unit=False, mask="none"),
    "spelled out, another formula": cells.gru(unit=False, mask="none", swapped=True),
    "spelled out with masks, reset first": cells.gru(unit=False, mask="product", before_reset=False),
    "spelled out with masks, dropped": cells.gru(unit=False, mask="product", drop=True, swapped=True),
}
RNNS: dict[str, Recurrent] = {
    "tanh": cells.rnn(),
    "relu, dropped": cells.rnn("Relu", drop=True),
    "sigmoid, without lengths": cells.rnn("Sigmoid", mask="none"),
    "projection in the step": cells.rnn(projection="inside"),
}
CELLS = [
    pytest.param(kind, cell, id=f"{kind}: {name}")
    for kind, table in (("LSTM", LSTMS), ("GRU", GRUS), ("RNN", RNNS))
    for name, cell in table.items()
]
SIZES = ((1, 1), (2, 3), (7, 4))


def export(cell: Recurrent, form: str, seed: int | None = None, inputs: Mapping[str, Any] | None = None) -> Any:
    random = np.random.default_rng(seed)
    source = cell if seed is None else cells.renamed(cell, random)
    net = source.net(None if seed is None else random)
    shapes: dict[str, Any] = {"x": ("float32", ["T", "N", cells.FEATURES]), **(inputs or {})}
    if cell.lengths:
        shapes["lengths"] = ("int32", ["N"])
    return to_onnx(net, cell.init(), inputs=shapes, recurrent=form)  # type: ignore[arg-type] # a literal


def node_types(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def expected(cell: Recurrent, inputs: Mapping[str, Array], outputs: list[str]) -> dict[str, Array]:
    blobs = run_net(cell.net(), {**cell.weights, **inputs})
    return {name: blobs[name] for name in outputs}


def assert_same(actual: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    for name, value in wanted.items():
        assert actual[name].shape == value.shape, name
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(("kind", "cell"), CELLS)
def test_every_spelling_is_fused_and_right(kind: str, cell: Recurrent) -> None:
    model = export(cell, "fused", seed=5)
    types = node_types(model)
    assert types.count(kind) == 1
    assert not {"Scan", "Loop"} & set(types)
    session = Session(model.SerializeToString(), threads=1)
    scan = Session(export(cell, "scan", seed=6).SerializeToString(), threads=1)
    for steps, batch in SIZES:
        for scale in (1.0, 60.0):
            inputs = cells.feed(cell, steps, batch, scale=scale)
            wanted = expected(cell, inputs, list(session.outputs))
            assert_same(session.run(inputs), wanted)
            assert_same(scan.run(inputs), wanted)


@pytest.mark.parametrize(("kind", "cell"), CELLS)
def test_no_steps_leave_the_initial_state(kind: str, cell: Recurrent) -> None:
    assert kind
    inputs = cells.feed(cell, 0, 2)
    for form in ("fused", "scan", "loop"):
        results = Session(export(cell, form).SerializeToString(), threads=1).run(inputs)
        assert results["h_all"].shape == (0, 2, cells.WIDTH), form
        np.testing.assert_array_equal(results["h_last"], inputs["h_0"], err_msg=form)


@pytest.mark.parametrize(
    "cell", [LSTMS["as Caffe2's helper writes it"], GRUS["unit"], RNNS["tanh"]], ids=["LSTM", "GRU", "RNN"]
)
def test_initial_states_of_one_dim_are_every_rows(cell: Recurrent) -> None:
    flat = {f"{state}_0": ("float32", [cells.WIDTH]) for state in cell.states}
    inputs = cells.feed(cell, 4, 3)
    inputs |= {name: inputs[name][0, 0] for name in flat}
    for form in ("fused", "scan"):
        session = Session(export(cell, form, inputs=flat).SerializeToString(), threads=1)
        assert_same(session.run(inputs), expected(cell, inputs, list(session.outputs)))


def test_names_and_order_do_not_matter() -> None:
    cell = LSTMS["spelled out with masks"]
    models = [export(cell, "fused", seed) for seed in range(8)]
    counts = {tuple(sorted(node_types(model))) for model in models}
    assert len(counts) == 1
    inputs = cells.feed(cell, 5, 3)
    for model in models:
        session = Session(model.SerializeToString(), threads=1)
        assert_same(session.run(inputs), expected(cell, inputs, list(session.outputs)))
