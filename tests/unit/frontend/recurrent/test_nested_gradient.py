"""Gradients of a recurrent net in the steps of another, against PyTorch's autograd in double."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.builder.windows import add_link
from support.exports import run, specs_of

from caffe2_bridge.builder import Net, recurrent_net
from caffe2_bridge.gradients import add_gradient_operators, recompute_steps
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent

pytestmark = pytest.mark.torch
D = 3


def nested() -> tuple[NetDef, dict[str, str]]:
    """Return a net whose outer steps run ``g' = tanh(W g + y_s)`` along a second sequence y, from the outer state."""
    net = Net("net")
    net.add_external_input("x", "start", "y", "w", "b")
    outer = net.child("outer")
    outer.add_external_input("x_t", "outer_time", "h_prev", "y", "w", "b")
    inner = outer.child("inner")
    inner.add_external_input("y_s", "inner_time", "g_prev", "w", "b")
    product = inner.op("FC", ["g_prev", "w", "b"], ["product"], axis=2)
    inner.op("Sum", [product, "y_s"], ["total"])
    inner.op("Tanh", ["total"], ["g"])
    inner.add_external_output("g")
    outer.op("Sum", ["h_prev", "x_t"], ["g_start"])
    _, last = recurrent_net(
        outer, inner, [("y_s", "y")], [("g_prev", "g_start")], {"g_prev": "g"}, timestep="inner_time",
        outputs_with_grads=[1],
    )  # fmt: skip
    outer.op("Mul", [last, "h_prev"], ["scaled"])
    outer.op("Sum", ["scaled", "x_t"], ["h"])
    outer.add_external_output("h")
    results = recurrent_net(
        net, outer, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"}, timestep="outer_time",
        outputs_with_grads=[0],
    )  # fmt: skip
    net.op("Tanh", [results[0]], ["squashed"])
    net.op("SumElements", ["squashed"], ["loss"])
    made = add_gradient_operators(net.proto, ["loss"])
    return made.net, {
        name: str(made.gradients[name]) for name in ("x", "start", "w", "b", "y") if name in made.gradients
    }


def operators(net: NetDef) -> Iterator[OperatorDef]:
    """Yield the RecurrentNetworks of a net and of its steps, with their gradients; the outer ones first."""
    for op in net.op:
        if op.type.startswith("RecurrentNetwork"):
            yield op
        for arg in op.arg:
            yield from operators(arg.n)


def with_windows(net: NetDef, *, outer: bool, inner: bool) -> NetDef:
    """Return the net with windows that no operator reads, which make the operators carry whole blobs."""
    changed = NetDef()
    changed.CopyFrom(net)
    tops = [op for op in changed.op if op.type.startswith("RecurrentNetwork")]
    found = [*(tops if outer else [])]
    if inner:
        found += [op for top in tops for arg in top.arg for op in operators(arg.n)]
    for op in found:
        is_outer = any(op is top for top in tops)
        add_link(op, "unread", "x" if is_outer else "y", window=2)
    return changed


def compare(net: NetDef, changed: NetDef, gradients: dict[str, str], **choices: Any) -> None:
    """Assert that the model of the changed net has the gradients that PyTorch computes of the net."""
    import torch
    from support.builder.torch_nets import run as run_torch

    rng = np.random.default_rng(4)
    shapes = {"x": (4, 2, D), "start": (1, 2, D), "y": (5, 2, D), "w": (D, D), "b": (D,)}
    inputs: dict[str, Any] = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    known = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in inputs.items()}
    held = dict(known)
    loss = next(index for index, op in enumerate(net.op) if "loss" in op.output)
    run_torch(NetDef(op=net.op[: loss + 1]), held)
    held["loss"].backward()
    model = to_onnx(changed, inputs=specs_of(inputs, sizes=False), outputs=list(gradients.values()), **choices)
    assert len(gradients) >= 4
    for name, got in zip(gradients, run(model, inputs), strict=True):
        np.testing.assert_allclose(got, known[name].grad, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", ["auto", "loop"])
def test_nested(form: Recurrent) -> None:
    net, gradients = nested()
    compare(net, net, gradients, recurrent=form)


def test_blobs_of_both_steps_are_computed_again() -> None:
    net, gradients = nested()
    assert recompute_steps(net) != net
    compare(net, net, gradients, recompute="steps")


@pytest.mark.parametrize(("outer", "inner"), [(True, False), (False, True), (True, True)])
def test_windows(*, outer: bool, inner: bool) -> None:
    net, gradients = nested()
    compare(net, with_windows(net, outer=outer, inner=inner), gradients)
