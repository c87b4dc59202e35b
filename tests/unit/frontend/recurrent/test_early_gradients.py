"""Gradients of RecurrentNetworks as releases until February 2017 write them, against PyTorch in double."""

from __future__ import annotations

import numpy as np
import pytest
from support.builder.cell_gradients import cell, compare, exported, inputs_of
from support.builder.early_format import FORMATS, Format, early_net, has_one_gradient
from support.builder.random_cells import D
from support.exports import node_types, run, specs_of

from caffe2_frontend import to_onnx

# Cells of whose outputs only the first has a gradient.
CELLS = [seed for seed in range(150) if has_one_gradient(cell(seed))][:12]


@pytest.mark.torch
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", CELLS)
def test_random_cells(seed: int, form: Format) -> None:
    drawn = cell(seed)
    model = exported(drawn, "auto", drawn.inputs, net=early_net(drawn.net.proto, form, D))
    assert "Loop" not in set(node_types(model.graph))
    for steps, batch in ((4, 2), (1, 3)):
        compare(drawn, model, inputs_of(drawn, steps, batch))


@pytest.mark.torch
@pytest.mark.parametrize("form", ["named", "kept"])
def test_rows_that_the_steps_keep_can_be_read(form: Format) -> None:
    """Read the rows of the gradient of the sequence, which is an alias of a blob of the operator."""
    nets = ((cell(seed), early_net(cell(seed).net.proto, form, D)) for seed in CELLS)
    drawn, net = next((drawn, net) for drawn, net in nets if "x_rows_grad" in str(net))
    net.op.add(type="Copy", input=["x_rows_grad"], output=["read"])
    model = to_onnx(net, inputs=specs_of(drawn.inputs), outputs=["read", "x_grad"])
    read, gradient = run(model, drawn.inputs)
    assert np.abs(gradient).max() > 0
    np.testing.assert_array_equal(read, gradient)
    compare(drawn, exported(drawn, "auto", drawn.inputs, net=net), drawn.inputs)


def test_the_gradient_alone() -> None:
    drawn = cell(CELLS[0])
    net = early_net(drawn.net.proto, "kept", D)
    gradients = [*drawn.gradients.values()]
    whole = run(to_onnx(net, inputs=specs_of(drawn.inputs), outputs=["s0_all_grad", *gradients]), drawn.inputs)
    (op,) = (op for op in net.op if op.type == "RecurrentNetworkGradient")
    del net.op[:]
    net.op.add().CopyFrom(op)
    inputs = {**drawn.inputs, op.input[0]: whole[0]}
    model = to_onnx(net, inputs=specs_of(inputs), outputs=gradients)
    for got, want in zip(run(model, inputs), whole[1:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
