"""Gradients of recurrent units: named dims, and what depends on saved values alone."""

from __future__ import annotations

import pytest
from conformance.recording import operator
from support.exports import Specs, dims, export

STATE = ("float32", (1, "N", 4))
TIMESTEP = ("int32", (1,))


def unit(states: int, lengths: tuple[int | str | None, ...] = ("N",)) -> Specs:
    kept = {f"S{i}": STATE for i in range(states)}
    after = {f"{name}{i}": STATE for name in ("T", "dT") for i in range(states)}
    gates = ("float32", (1, "N", 4 * (states + 2)))
    return {**kept, "gates": gates, "lengths": ("int32", lengths), "timestep": TIMESTEP, **after}


@pytest.mark.parametrize(("op_type", "states"), [("LSTMUnitGradient", 2), ("GRUUnitGradient", 1)])
def test_named_dims_stay(op_type: str, states: int) -> None:
    inputs = unit(states)
    outputs = [*(f"dS{i}" for i in range(states)), "dgates"]
    model = export(operator(op_type, list(inputs), outputs), inputs)
    assert dims(model) == [1, "N", 4]
    assert dims(model, states) == [1, "N", 4 * (states + 2)]


def test_few_nodes_depend_on_the_gradients() -> None:
    """The others leave the loop over the steps of a recurrent net."""
    inputs = unit(2)
    model = export(operator("LSTMUnitGradient", list(inputs), ["dS0", "dS1", "dgates"]), inputs)
    reached, nodes = {"dT0", "dT1"}, []
    for node in model.graph.node:
        if reached & set(node.input):
            reached |= set(node.output)
            nodes.append(node.op_type)
    assert sorted(nodes) == ["Add", "Concat", "Mul", "Mul", "Mul", "Where"]
