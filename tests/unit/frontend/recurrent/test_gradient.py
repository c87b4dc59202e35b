"""RecurrentNetworkGradient of random cells: one model for every T and N agrees with PyTorch's autograd in double."""

from __future__ import annotations

import numpy as np
import pytest
from support.builder.cell_gradients import cell, compare, exported, inputs_of
from support.builder.random_cells import D
from support.exports import run, specs_of

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
    """Only the gradients of the last rows, which are the initial states, are not empty or zero."""
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
