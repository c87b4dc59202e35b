"""Nets of gradients without the forward operator: its steps run again, from the inputs of the forward operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.builder.cell_gradients import cell, inputs_of
from support.builder.dropout import with_dropout
from support.exports import node_types, run, specs_of

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import check, to_onnx


def halves(net: NetDef) -> tuple[NetDef, NetDef]:
    """Return the operators before the first gradient operator, and the others."""
    first = next(i for i, op in enumerate(net.op) if op.is_gradient_op)
    return NetDef(name="forward", op=net.op[:first]), NetDef(name="backward", op=net.op[first:])


def run_halves(nets: tuple[NetDef, NetDef], inputs: dict[str, Any], gradients: list[str]) -> list[Any]:
    """Run a model of the forward net, and feed what it computes to a model of the other."""
    forward, backward = nets
    known = dict(inputs)
    written = [name for op in forward.op for name in op.output if "workspaces" not in name]
    known |= dict(zip(written, run(to_onnx(forward, inputs=specs_of(inputs), outputs=written), inputs), strict=True))
    model = to_onnx(backward, inputs=specs_of(known_inputs(backward, known)), outputs=gradients)
    return run(model, {value.name: known[value.name] for value in model.graph.input})


def known_inputs(net: NetDef, known: dict[str, Any]) -> dict[str, Any]:
    read = {name for op in net.op for name in op.input}
    made = {name for op in net.op for name in op.output}
    return {name: value for name, value in known.items() if name in read and name not in made}


@pytest.mark.parametrize("seed", range(6))
def test_two_models(seed: int) -> None:
    drawn = cell(seed)
    inputs = inputs_of(drawn, 4, 2)
    gradients = [*drawn.gradients.values()]
    whole = run(to_onnx(drawn.net.proto, inputs=specs_of(inputs), outputs=gradients), inputs)
    for got, want in zip(run_halves(halves(drawn.net.proto), inputs, gradients), whole, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_the_forward_operator_leaves_is_no_input() -> None:
    drawn = cell(5)
    (gradient,) = (op for op in drawn.net.proto.op if op.type == "RecurrentNetworkGradient")
    net = NetDef(name="backward", op=[gradient], external_input=gradient.input)
    report = check(net, inputs=specs_of(drawn.inputs, sizes=False))
    assert [finding.code for finding in report.findings if finding.code == "rerun-steps"] == ["rerun-steps"]
    (note,) = (finding for finding in report.findings if finding.code == "rerun-steps")
    assert str(note.location) == "backward[0] RecurrentNetworkGradient"
    model = to_onnx(net, inputs=specs_of(drawn.inputs, sizes=False))
    given = {name for name in gradient.input if name.endswith("_grad")}
    assert {value.name for value in model.graph.input} == {*drawn.inputs, *given}
    assert "Scan" in set(node_types(model.graph))


def test_steps_that_draw_numbers_do_not_run_again() -> None:
    net = NetDef(op=[op for op in with_dropout().op if op.type == "RecurrentNetworkGradient"])
    x = np.zeros((6, 3, 4), np.float32)
    with pytest.raises(ConversionError, match="cannot run again, because they draw random numbers") as caught:
        to_onnx(net, inputs=specs_of({"x": x, "start": x[:1]}))
    assert "convert the forward and the gradient operators as one net" in str(caught.value)


def test_parameters_that_the_net_updates_stay_inputs() -> None:
    """Check that only what the forward operator leaves is no input any more."""
    drawn = cell(5)
    (gradient,) = (op for op in drawn.net.proto.op if op.type == "RecurrentNetworkGradient")
    update = OperatorDef(type="Sum", input=["x", "x_grad"], output=["x"])
    net = NetDef(op=[gradient, update], external_input=gradient.input)
    model = to_onnx(net, inputs=specs_of(drawn.inputs, sizes=False), outputs=["x"])
    assert "x" in {value.name for value in model.graph.input}
