"""Gradients of random programs of branches and loops: 20 runs in real Caffe2, against PyTorch's in double."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from conformance.oracle import OracleResult, OracleRun, run_oracle
from support.gradients.random_control import PARAMETERS, VARIABLES, Program, draw_program

from caffe2_bridge.gradients import add_gradient_operators

pytestmark = [pytest.mark.oracle, pytest.mark.torch]
SEEDS = range(250)
LEAVES = (*(f"{name}_in" for name in VARIABLES), *PARAMETERS)


@cache
def computed() -> dict[int, tuple[Program, dict[str, str], OracleResult]]:
    programs, gradients, runs = {}, {}, []
    for seed in SEEDS:
        programs[seed] = draw_program(seed)
        found = add_gradient_operators(programs[seed].net, ["l"])
        gradients[seed] = {name: str(found.gradients[name]) for name in LEAVES if name in found.gradients}
        runs.append(OracleRun(found.net, programs[seed].inputs, outputs=["l", *gradients[seed].values()], times=20))
    results = zip(SEEDS, run_oracle(runs), strict=True)
    return {seed: (programs[seed], gradients[seed], result) for seed, result in results}


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients(seed: int) -> None:
    import torch

    program, gradients, result = computed()[seed]
    assert not result.error
    values: dict[str, Any] = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True) if value.dtype == np.float32 else value
        for name, value in program.inputs.items()
    }
    loss = program.loss(values)
    np.testing.assert_allclose(loss.detach(), result.outputs["l"], rtol=1e-4)
    if loss.requires_grad:
        loss.backward()
    for name in LEAVES:
        expected = np.zeros((2, 2)) if values[name].grad is None else values[name].grad.numpy()
        found = result.outputs[gradients[name]] if name in gradients else np.zeros((2, 2))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4, err_msg=name)
