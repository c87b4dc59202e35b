"""Gradients of random cells in real Caffe2, three runs each, against PyTorch's in double."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from conformance.oracle import OracleResult, OracleRun, run_oracle
from support.builder.random_cells import RandomCell, draw

from caffe2_bridge.proto.caffe2_pb2 import NetDef

pytestmark = [pytest.mark.oracle, pytest.mark.torch]
SEEDS = range(120)


@cache
def computed() -> dict[int, tuple[RandomCell, OracleResult]]:
    cells = {seed: draw(seed) for seed in SEEDS}
    runs = [OracleRun(c.net.proto, c.inputs, outputs=["loss", *c.gradients.values()]) for c in cells.values()]
    return {seed: (cells[seed], result) for seed, result in zip(cells, run_oracle(runs), strict=True)}


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients(seed: int) -> None:
    import torch
    from support.builder.torch_nets import run

    cell, result = computed()[seed]
    assert not result.error
    loss = next(index for index, op in enumerate(cell.net.proto.op) if "loss" in op.output)
    known = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in cell.inputs.items()}
    held = dict(known)
    run(NetDef(op=cell.net.proto.op[: loss + 1]), held)
    np.testing.assert_allclose(held["loss"].detach(), result.outputs["loss"], rtol=1e-4)
    held["loss"].backward()
    assert {"x", "start0"} <= set(cell.gradients)
    for name, gradient in cell.gradients.items():
        expected = known[name].grad
        assert expected is not None, name
        np.testing.assert_allclose(result.outputs[gradient], expected, rtol=1e-3, atol=1e-4, err_msg=name)
