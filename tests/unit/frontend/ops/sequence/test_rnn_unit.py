"""LSTMUnit as releases until February 2017 write it: without the hidden state, which is 0 past the sequence."""

from __future__ import annotations

import numpy as np
import pytest
from support.exports import export, run

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

N, D = 3, 4
RANDOM = np.random.default_rng(5)
INPUTS = {
    "c_prev": RANDOM.standard_normal((1, N, D)).astype(np.float32),
    "gates": RANDOM.standard_normal((1, N, 4 * D)).astype(np.float32),
    "lengths": np.array([0, 2, 3], np.int32),
    "t": np.array([2], np.int32),
}
SPECS = {name: (value.dtype, value.shape) for name, value in INPUTS.items()}
UNIT = OperatorDef(type="LSTMUnit", input=["c_prev", "gates", "lengths", "t"], output=["h", "c"])


@pytest.mark.torch
def test_an_early_unit_and_its_gradient() -> None:
    import torch

    backward = OperatorDef(
        type="LSTMUnitGradient",
        input=[*UNIT.input, "h", "c", "dh", "dc"],
        output=["c_prev_grad", "gates_grad"],
        is_gradient_op=True,
    )
    slopes = {"dh": (np.float32, (1, N, D)), "dc": (np.float32, (1, N, D))}
    outputs = ["h", "c", *backward.output]
    model = to_onnx(NetDef(op=[UNIT, backward]), inputs={**SPECS, **slopes}, outputs=outputs)
    given = {name: RANDOM.standard_normal((1, N, D)).astype(np.float32) for name in slopes}
    results = run(model, {**INPUTS, **given})

    known = {name: torch.tensor(INPUTS[name], dtype=torch.float64, requires_grad=True) for name in ("c_prev", "gates")}
    i, f, o, g = known["gates"].chunk(4, dim=-1)
    valid = (torch.tensor(INPUTS["t"]) < torch.tensor(INPUTS["lengths"]))[None, :, None]
    new = torch.sigmoid(f) * known["c_prev"] + torch.sigmoid(i) * torch.tanh(g)
    c = torch.where(valid, new, known["c_prev"])
    h = torch.where(valid, torch.sigmoid(o) * torch.tanh(new), torch.zeros_like(new))
    total = (h * torch.tensor(given["dh"]) + c * torch.tensor(given["dc"])).sum()
    total.backward()
    expected = [h.detach(), c.detach(), known["c_prev"].grad, known["gates"].grad]
    for name, got, want in zip(outputs, results, expected, strict=True):
        assert want is not None
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_inputs_of_an_early_unit_are_described() -> None:
    h, c = run(export(UNIT, SPECS), INPUTS)
    assert h.shape == c.shape == (1, N, D)
    np.testing.assert_array_equal(h[0, :2], 0)
    model = to_onnx(NetDef(op=[UNIT]))
    kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    assert kinds == {"c_prev": 1, "gates": 1, "lengths": 6, "t": 6}
