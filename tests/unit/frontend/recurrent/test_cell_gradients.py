"""Gradients of every cell of the builder, exported, against PyTorch's autograd in double."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from support.builder.cell_cases import CASES, Built, N, T, ours, values
from support.exports import run, specs_of

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent

pytestmark = pytest.mark.torch
TRAINED = [name for name, case in CASES.items() if case.trains and not name.startswith("unrolled")]
Arrays = dict[str, np.ndarray[Any, Any]]


@cache
def built(name: str) -> Built:
    return ours(CASES[name], forward_only=False)


def inputs_of(name: str, steps: int) -> Arrays:
    """Return the inputs that the net reads, with the first steps of the sequence."""
    net = built(name).net
    written = {blob for op in net.proto.op for blob in op.output}
    read = {blob for op in net.proto.op for blob in op.input} - written
    drawn = values(name, CASES[name], net)
    inputs = {blob: value for blob, value in drawn.items() if blob in read}
    for blob in ("x", "weights"):
        inputs[blob] = inputs[blob][:steps]
    return inputs


def expected(net: NetDef, inputs: Arrays) -> dict[str, Any]:
    """Return the gradients of the loss, in double."""
    import torch
    from support.builder.torch_nets import run as run_torch

    loss = next(index for index, op in enumerate(net.op) if "loss" in op.output)
    known = {
        blob: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        if value.dtype == np.float32
        else torch.tensor(value)
        for blob, value in inputs.items()
    }
    held = dict(known)
    run_torch(NetDef(op=net.op[: loss + 1]), held)
    held["loss"].backward()
    return {blob: value.grad for blob, value in known.items() if value.grad is not None}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "auto") for name in TRAINED),
        *((name, "loop") for name in ("lstm", "gru_drop_states", "residual_all", "attention_soft_coverage")),
    ],
)
def test_gradients(name: str, form: Recurrent) -> None:
    net = built(name)
    wanted = {blob: gradient for blob, gradient in net.gradients.items() if blob in inputs_of(name, T)}
    specs: dict[str, Any] = specs_of(inputs_of(name, T), sizes=True)
    specs |= {blob: (np.float32, ("T", "N", *specs[blob][1][2:])) for blob in ("x", "weights")}
    specs |= {blob: (dtype, (shape[0], "N", *shape[2:])) for blob, (dtype, shape) in specs.items() if N in shape[1:2]}
    if "seq_lengths" in specs:
        specs["seq_lengths"] = (np.int32, ("N",))
    model = to_onnx(net.net.proto, inputs=specs, outputs=list(wanted.values()), recurrent=form)
    for steps in (T, 2):
        inputs = inputs_of(name, steps)
        correct = expected(net.net.proto, inputs)
        assert len(wanted) >= 6
        read = {value.name for value in model.graph.input}
        results = run(model, {blob: value for blob, value in inputs.items() if blob in read})
        for blob, got in zip(wanted, results, strict=True):
            np.testing.assert_allclose(got, correct[blob], rtol=1e-4, atol=1e-5, err_msg=f"gradient of {blob}")
