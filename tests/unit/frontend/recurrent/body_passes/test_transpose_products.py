"""Products of training loops with the weights on the left: which ones there are, and that gradients stay right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from support.exports import run, specs_of

from caffe2_bridge.builder import GRUCell, LSTMCell, Net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent

Arrays = dict[str, np.ndarray[Any, Any]]
FEATURES, STEPS, NARROW, WIDE = 5, 3, 128, 256
CELLS = {"lstm": LSTMCell, "gru": GRUCell}


@dataclass(frozen=True)
class Trained:
    """A cell over a sequence, with gradients from ``dy``, that of its output.

    Attributes:
        net: the operators.
        forward: the number of operators before the gradients.
        output: the blob of the output.
        parameters: the values of the parameters.
        gradients: the gradient of each parameter.
    """

    net: NetDef
    forward: int
    output: str
    parameters: Arrays
    gradients: dict[str, str]


@cache
def trained(kind: str, hidden: int) -> Trained:
    net = Net("net", seed=1)
    cell = CELLS[kind](name="rnn", input_size=FEATURES, hidden_size=hidden)
    states = [f"start_{number}" for number, _ in enumerate(cell.state_names)]
    output, _ = cell.apply_over_sequence(net, "x", "lengths", states)
    parameters = {name: np.asarray(value) for name, value in net.model().params.items()}
    made = add_gradient_operators(net.proto, {str(output): "dy"})
    gradients = {name: str(made.gradients[name]) for name in parameters}
    return Trained(made.net, len(net.proto.op), str(output), parameters, gradients)


def inputs_of(cell: Trained, hidden: int, batch: int) -> Arrays:
    random = np.random.default_rng(batch)
    inputs: Arrays = {
        "x": random.standard_normal((STEPS, batch, FEATURES)).astype(np.float32),
        "lengths": random.integers(1, STEPS + 1, batch).astype(np.int32),
        "dy": random.standard_normal((STEPS, batch, hidden)).astype(np.float32) / 10,
    }
    for name in cell.net.external_input:
        if name.startswith("start"):
            inputs[name] = random.standard_normal((1, batch, hidden)).astype(np.float32) / 2
    return {**inputs, **cell.parameters}


def exported(cell: Trained, inputs: Arrays, form: Recurrent, *, sizes: bool) -> onnx.ModelProto:
    """Return the model, whose parameters are inputs of known sizes."""
    specs = {**specs_of(inputs, sizes=sizes), **specs_of(cell.parameters)}
    return to_onnx(cell.net, inputs=specs, outputs=list(cell.gradients.values()), recurrent=form)


def expected(cell: Trained, inputs: Arrays) -> list[Any]:
    """Return the gradients of the parameters, in double."""
    import torch
    from support.builder.torch_nets import run as run_torch

    known = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True)
        if value.dtype == np.float32
        else torch.tensor(value)
        for name, value in inputs.items()
    }
    held = dict(known)
    run_torch(NetDef(op=cell.net.op[: cell.forward]), held)
    held[cell.output].backward(known["dy"].detach())  # type: ignore[no-untyped-call] # PyTorch's own
    return [known[name].grad for name in cell.gradients]


def around_products(graph: onnx.GraphProto, outside: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the types of the nodes in whose bodies each product is, from the outermost on."""
    found = [outside for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += around_products(attribute.g, (*outside, node.op_type))
    return found


def choices(model: onnx.ModelProto) -> int:
    """Return how many products of loops are in branches."""
    return sum(around[-2:] in (("Scan", "If"), ("Loop", "If")) for around in around_products(model.graph))


@pytest.mark.torch
@pytest.mark.parametrize("form", ["auto", "loop"])
@pytest.mark.parametrize(("kind", "hidden"), [("lstm", NARROW), ("gru", NARROW), ("lstm", WIDE)])
def test_gradients(kind: str, hidden: int, form: Recurrent) -> None:
    """Use one model for every batch: those that the transposed product suits, and others."""
    cell = trained(kind, hidden)
    model = exported(cell, inputs_of(cell, hidden, 2), form, sizes=False)
    assert choices(model) >= 4
    for batch in (16, 3, 144):
        inputs = inputs_of(cell, hidden, batch)
        for name, got, want in zip(cell.gradients, run(model, inputs), expected(cell, inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=f"{name}, batch {batch}")


@pytest.mark.torch
@pytest.mark.parametrize("batch", [16, 3])
def test_a_known_batch_needs_no_choice(batch: int) -> None:
    cell = trained("lstm", NARROW)
    inputs = inputs_of(cell, NARROW, batch)
    model = exported(cell, inputs, "auto", sizes=True)
    assert choices(model) == 0
    for got, want in zip(run(model, inputs), expected(cell, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_constant_weights_stay_on_the_right() -> None:
    """onnxruntime packs them once."""
    cell = trained("lstm", NARROW)
    inputs = inputs_of(cell, NARROW, 16)
    init = NetDef()
    for name, value in cell.parameters.items():
        op = init.op.add(type="GivenTensorFill", output=[name])
        op.arg.add(name="shape", ints=value.shape)
        op.arg.add(name="values", floats=value.ravel())
    fed = {name: value for name, value in inputs.items() if name not in cell.parameters}
    model = to_onnx(cell.net, init, inputs=specs_of(fed, sizes=False), outputs=list(cell.gradients.values()))
    assert choices(model) == 0


def test_small_weights_stay_on_the_right() -> None:
    cell = trained("lstm", 8)
    assert choices(exported(cell, inputs_of(cell, 8, 2), "auto", sizes=False)) == 0
