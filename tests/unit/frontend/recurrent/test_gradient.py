"""RecurrentNetworkGradient of random cells: one model for every T and N agrees with PyTorch's autograd in double."""

from __future__ import annotations

from collections.abc import MutableSequence

import numpy as np
import pytest
from support.builder.cell_gradients import cell, compare, exported, inputs_of
from support.builder.random_cells import D, RandomCell
from support.exports import run, specs_of

from caffe2_bridge import ConversionError
from caffe2_bridge.builder import LSTMCell, Net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent

SEEDS = range(40)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("seed", "form"), [*((seed, "auto") for seed in SEEDS), *((seed, "loop") for seed in SEEDS[::4])]
)
def test_random_cells(seed: int, form: Recurrent) -> None:
    drawn = cell(seed)
    model = exported(drawn, form, drawn.inputs)
    for steps, batch in ((4, 2), (1, 3)):
        compare(drawn, model, inputs_of(drawn, steps, batch))


@pytest.mark.torch
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_known_sizes(seed: int) -> None:
    drawn = cell(seed)
    inputs = inputs_of(drawn, 3, 2)
    compare(drawn, exported(drawn, "auto", inputs, sizes=True), inputs)


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(D,), (2, D)])
def test_ranks_of_initial_states(shape: tuple[int, ...]) -> None:
    drawn = cell(5)
    inputs = inputs_of(drawn, 4, 2)
    for name in inputs:
        if name.startswith("start"):
            inputs[name] = inputs[name].reshape(-1)[: int(np.prod(shape))].reshape(shape)
    compare(drawn, exported(drawn, "auto", inputs), inputs)


@pytest.mark.parametrize("form", ["auto", "loop"])
@pytest.mark.parametrize("sizes", [False, True])
def test_no_steps(form: Recurrent, *, sizes: bool) -> None:
    """Check that only the gradients of the last rows, which are the initial states, are not empty or zero."""
    for seed in range(6):
        drawn = cell(seed)
        inputs = inputs_of(drawn, 0, 2)
        model = exported(drawn, form, inputs, sizes=sizes)
        for name, value in zip(drawn.gradients, run(model, inputs)[1:], strict=True):
            assert value.shape == inputs[name].shape
            if not name.startswith("start"):
                assert not value.any()


def test_outputs_that_the_net_implies() -> None:
    """Gradients of states are blobs of the workspace, but no operator lists them as outputs."""
    drawn = cell(5)
    model = to_onnx(drawn.net.proto, inputs=specs_of(drawn.inputs))
    assert {value.name for value in model.graph.output} == {*drawn.gradients.values()}


def lstm(given: tuple[int, ...], drop_states: bool) -> RandomCell:
    """Return an LSTM with sequence lengths. ``given`` are the results that have gradients."""
    net = Net("net")
    net.add_external_input("x", "lengths", "h0", "c0")
    made = LSTMCell(name="lstm", input_size=D, hidden_size=D, drop_states=drop_states)
    _, results = made.apply_over_sequence(net, "x", "lengths", ["h0", "c0"], given)
    for index in given:
        net.op("Tanh", [results[index]], [f"t{index}"])
        net.op("SumElements", [f"t{index}"], [f"l{index}"])
    net.op("Sum", [f"l{index}" for index in given], ["loss"])
    found = add_gradient_operators(net.proto, ["loss"])
    net.proto.CopyFrom(found.net)
    values = np.random.default_rng(7)
    shapes = {"x": (5, 3, D), "h0": (1, 3, D), "c0": (3, D), "lstm/i2h_w": (4 * D, D), "lstm/i2h_b": (4 * D,)}
    shapes |= {"lstm/gates_t_w": (4 * D, D), "lstm/gates_t_b": (4 * D,)}
    inputs = {name: values.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    gradients = {name: str(found.gradients[name]) for name in inputs if name in found.gradients}
    return RandomCell(net, {**inputs, "lengths": np.array([2, 5, 0], np.int32)}, gradients)


@pytest.mark.torch
@pytest.mark.parametrize("drop_states", [False, True])
@pytest.mark.parametrize("given", [tuple(i for i in range(4) if chosen >> i & 1) for chosen in range(1, 16)])
def test_every_combination_of_gradients(given: tuple[int, ...], *, drop_states: bool) -> None:
    drawn = lstm(given, drop_states)
    assert {"x", "h0", "c0"} <= {*drawn.gradients}
    compare(drawn, exported(drawn, "auto", drawn.inputs), {**drawn.inputs})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("RecurrentNetwork", "initial_recurrent_state_ids"),
        ("RecurrentNetworkGradient", "initial_recurrent_state_ids"),
        ("RecurrentNetworkGradient", "param"),
    ],
)
@pytest.mark.parametrize("index", [-1, 99])
def test_an_index_that_is_no_input_is_refused(kind: str, name: str, index: int) -> None:
    drawn = next(cell(seed) for seed in SEEDS if _indices(cell(seed).net.proto, kind, name))
    net = NetDef.FromString(drawn.net.proto.SerializeToString())
    _indices(net, kind, name)[0] = index
    with pytest.raises(ConversionError, match=rf"{name} must list indices of inputs, from 0 to \d+, not {index}"):
        to_onnx(net, inputs=specs_of(drawn.inputs), outputs=list(drawn.gradients.values()))


def _indices(net: NetDef, kind: str, name: str) -> MutableSequence[int]:
    (found,) = (arg.ints for op in net.op if op.type == kind for arg in op.arg if arg.name == name)
    return found
