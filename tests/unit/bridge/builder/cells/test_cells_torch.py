"""Gradients of every cell, computed in real Caffe2, against PyTorch's of the same arithmetic."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleResult, OracleRun, run_oracle
from support.builder.cell_cases import CASES, Built, ours, values

from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = [pytest.mark.oracle, pytest.mark.torch]
TRAINED = [name for name, case in CASES.items() if case.trains]


@cache
def computed() -> dict[str, tuple[Built, dict[str, Any], OracleResult]]:
    built = {name: ours(CASES[name], forward_only=False) for name in TRAINED}
    inputs = {name: values(name, CASES[name], built[name].net) for name in TRAINED}
    runs = []
    for name in TRAINED:
        wanted = [gradient for blob, gradient in built[name].gradients.items() if blob in inputs[name]]
        runs.append(OracleRun(built[name].net.proto, inputs[name], outputs=[built[name].output, *wanted]))
    results = run_oracle(runs)
    return {name: (built[name], inputs[name], result) for name, result in zip(TRAINED, results, strict=True)}


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name: str) -> None:
    import torch
    from support.builder.torch_nets import run

    built, inputs, result = computed()[name]
    assert not result.error
    loss = next(index for index, op in enumerate(built.net.proto.op) if "loss" in op.output)
    net = NetDef(op=built.net.proto.op[: loss + 1])
    known = {blob: torch.tensor(value, requires_grad=value.dtype == np.float32) for blob, value in inputs.items()}
    held = dict(known)
    run(net, held)
    np.testing.assert_allclose(held[built.output].detach(), result.outputs[built.output], rtol=1e-3, atol=1e-5)
    held["loss"].backward()
    compared = 0
    for blob, gradient in built.gradients.items():
        if blob in known and known[blob].grad is not None:
            np.testing.assert_allclose(
                known[blob].grad, result.outputs[gradient], rtol=1e-3, atol=1e-5, err_msg=f"gradient of {blob}"
            )
            compared += 1
    assert compared >= 6
