"""A recurrent net and its gradient as nets or operators that run one after the other in a workspace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.builder.dropout import with_dropout
from support.builder.early_format import FORMATS, Format, early_net, has_one_gradient
from support.builder.random_cells import D, draw

from caffe2_backend import Workspace
from caffe2_bridge import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

X = np.random.default_rng(2).standard_normal((6, 3, 4)).astype(np.float32)


def halves(net: NetDef) -> tuple[NetDef, NetDef]:
    """Return the operators before the gradient of the recurrent net, and the others."""
    first = next(i for i, op in enumerate(net.op) if op.type == "RecurrentNetworkGradient")
    return NetDef(name="forward", op=net.op[:first]), NetDef(name="backward", op=net.op[first:])


def run(nets: list[NetDef], inputs: Any) -> Workspace:
    workspace = Workspace()
    for name, value in inputs.items():
        workspace.feed(name, value)
    for net in nets:
        workspace.run_net_once(net)
    return workspace


@pytest.mark.parametrize("seed", range(4))
def test_two_nets(seed: int) -> None:
    cell = draw(seed)
    one, two = run([cell.net.proto], cell.inputs), run([*halves(cell.net.proto)], cell.inputs)
    for gradient in cell.gradients.values():
        np.testing.assert_allclose(two.fetch(gradient), one.fetch(gradient), rtol=1e-5, atol=1e-6)


def test_operators_one_after_the_other() -> None:
    cell = draw(1)
    each = [NetDef(name=f"net{i}", op=[op]) for i, op in enumerate(cell.net.proto.op)]
    one, many = run([cell.net.proto], cell.inputs), run(each, cell.inputs)
    for gradient in cell.gradients.values():
        np.testing.assert_allclose(many.fetch(gradient), one.fetch(gradient), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMATS)
def test_two_nets_in_the_formats_of_early_2017(form: Format) -> None:
    """Those without step workspaces keep blobs of the steps in outer blobs; here the steps run again, too."""
    cell = next(filter(has_one_gradient, map(draw, range(50))))
    net = early_net(cell.net.proto, form, D)
    whole, two = run([net], cell.inputs), run([*halves(net)], cell.inputs)
    for gradient in cell.gradients.values():
        np.testing.assert_allclose(two.fetch(gradient), whole.fetch(gradient), rtol=1e-5, atol=1e-6)


def test_a_step_that_draws_numbers_keeps_them() -> None:
    workspace = run([with_dropout()], {"x": X, "start": np.zeros((1, 3, 4), np.float32)})
    gradient = workspace.fetch("x_grad")
    assert set(np.unique(gradient)) == {0, 2}
    np.testing.assert_allclose(workspace.fetch("h_last")[0], (X * gradient).sum(axis=0), rtol=1e-5, atol=1e-5)


def test_a_step_that_draws_numbers_does_not_run_again() -> None:
    with pytest.raises(BridgeError, match="step_workspaces"):
        run([*halves(with_dropout())], {"x": X, "start": np.zeros((1, 3, 4), np.float32)})
