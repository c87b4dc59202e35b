"""InferenceLSTM: the form that its sizes allow, against the definition of the cell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from conformance.recording import generator, operator
from support.exports import Specs, export, node_types, run

LSTM_STATES: Specs = dict.fromkeys(("h", "c"), ("float32", (1, "N", "H")))


LSTM: Specs = {
    "x": ("float32", ("T", "N", "I")),
    **LSTM_STATES,
    "w": ("float32", ("G", "I")),
    "r": ("float32", ("G", "H")),
}


@pytest.mark.parametrize(("gates", "units", "form"), [("G", "H", "Scan"), (24, 6, "LSTM")])
def test_lstm_takes_the_form_that_its_sizes_allow(gates: int | str, units: int | str, form: str) -> None:
    inputs = {**LSTM, "r": ("float32", (gates, units))}
    op = operator("InferenceLSTM", list(inputs), ["y", "hy", "cy"], has_biases=0)
    used = Counter(node_types(export(op, inputs).graph))
    assert {name: used[name] for name in ("Scan", "LSTM")} == {"Scan": 0, "LSTM": 0, form: 1}


@pytest.mark.parametrize(("gates", "units"), [("G", "H"), (24, 6)])
def test_both_forms_of_an_lstm_agree_with_its_definition(gates: int | str, units: int | str) -> None:
    rng = generator(3)
    shapes = {"x": (5, 2, 4), "h": (1, 2, 6), "c": (1, 2, 6), "w": (24, 4), "r": (24, 6)}
    values = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    op = operator("InferenceLSTM", list(shapes), ["y", "hy", "cy"], has_biases=0)
    outputs = run(export(op, {**LSTM, "r": ("float32", (gates, units))}), values)
    hidden, cell, expected = values["h"][0], values["c"][0], []
    for row in values["x"]:
        i, f, g, o = np.split(row @ values["w"].T + hidden @ values["r"].T, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
        cell = f * cell + i * np.tanh(g)
        hidden = o * np.tanh(cell)
        expected.append(hidden)
    for output, value in zip(outputs, (np.stack(expected), hidden[None], cell[None]), strict=True):
        np.testing.assert_allclose(output, value, rtol=1e-4, atol=1e-5)
