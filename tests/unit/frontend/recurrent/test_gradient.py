"""RecurrentNetworkGradient of random cells: one model for every T and N agrees with PyTorch's autograd in double."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.builder.random_cells import D, RandomCell, draw
from support.exports import run, specs_of

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx
from caffe2_frontend.options import Recurrent

Arrays = dict[str, np.ndarray[Any, Any]]
SEEDS = range(40)


@cache
def cell(seed: int) -> RandomCell:
    return draw(seed)


def inputs_of(drawn: RandomCell, steps: int, batch: int) -> Arrays:
    """Inputs of another size; parameters keep their values unless they have a batch."""
    values = np.random.default_rng(steps * 10 + batch)
    sizes = {"x": (steps, batch, D)}
    result = {}
    for name, value in drawn.inputs.items():
        shape = sizes.get(name, (1, batch, D) if value.ndim == 3 else value.shape)
        result[name] = values.standard_normal(shape).astype(np.float32) / 2
    return result


def exported(drawn: RandomCell, form: Recurrent, inputs: Mapping[str, Any], *, sizes: bool = False) -> Any:
    outputs = ["loss", *drawn.gradients.values()]
    return to_onnx(drawn.net.proto, inputs=specs_of(inputs, sizes=sizes), outputs=outputs, recurrent=form)


def expected(drawn: RandomCell, inputs: Arrays) -> list[Any]:
    """The loss and the gradients, in double."""
    import torch
    from support.builder.torch_nets import run as run_torch

    loss = next(index for index, op in enumerate(drawn.net.proto.op) if "loss" in op.output)
    known = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in inputs.items()}
    held = dict(known)
    run_torch(NetDef(op=drawn.net.proto.op[: loss + 1]), held)
    held["loss"].backward()  # type: ignore[no-untyped-call] # PyTorch's own
    return [held["loss"].detach().numpy(), *(known[name].grad for name in drawn.gradients)]


def compare(drawn: RandomCell, model: Any, inputs: Arrays) -> None:
    for name, got, want in zip(["loss", *drawn.gradients], run(model, inputs), expected(drawn, inputs), strict=True):
        assert got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("seed", "form"), [*((seed, "auto") for seed in SEEDS), *((seed, "loop") for seed in SEEDS[::4])]
)
def test_random_cells(seed: int, form: Recurrent) -> None:
    drawn = cell(seed)
    model = exported(drawn, form, drawn.inputs)
    for steps, batch in ((4, 2), (1, 3)):
        compare(drawn, model, inputs_of(drawn, steps, batch))


@pytest.mark.torch
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_known_sizes(seed: int) -> None:
    drawn = cell(seed)
    inputs = inputs_of(drawn, 3, 2)
    compare(drawn, exported(drawn, "auto", inputs, sizes=True), inputs)


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(D,), (2, D)])
def test_ranks_of_initial_states(shape: tuple[int, ...]) -> None:
    drawn = cell(5)
    inputs = inputs_of(drawn, 4, 2)
    for name in inputs:
        if name.startswith("start"):
            inputs[name] = inputs[name].reshape(-1)[: int(np.prod(shape))].reshape(shape)
    compare(drawn, exported(drawn, "auto", inputs), inputs)


@pytest.mark.parametrize("form", ["auto", "loop"])
@pytest.mark.parametrize("sizes", [False, True])
def test_no_steps(form: Recurrent, *, sizes: bool) -> None:
    """Only the gradients of the last rows, which are the initial states, are not empty or zero."""
    for seed in range(6):
        drawn = cell(seed)
        inputs = inputs_of(drawn, 0, 2)
        model = exported(drawn, form, inputs, sizes=sizes)
        for name, value in zip(drawn.gradients, run(model, inputs)[1:], strict=True):
            assert value.shape == inputs[name].shape
            if not name.startswith("start"):
                assert not value.any()


def test_gradient_without_the_forward_operator() -> None:
    drawn = cell(5)
    net = NetDef(op=[op for op in drawn.net.proto.op if op.type == "RecurrentNetworkGradient"])
    with pytest.raises(ConversionError, match="do not come from a RecurrentNetwork of the net"):
        to_onnx(net, inputs=specs_of(drawn.inputs))


def test_outputs_that_the_net_implies() -> None:
    """Gradients of states are blobs of the workspace, but no operator lists them as outputs."""
    drawn = cell(5)
    model = to_onnx(drawn.net.proto, inputs=specs_of(drawn.inputs))
    assert {value.name for value in model.graph.output} == {*drawn.gradients.values()}


def test_windows_are_refused() -> None:
    drawn = cell(5)
    net = NetDef()
    net.CopyFrom(drawn.net.proto)
    for op in net.op:
        if op.type.startswith("RecurrentNetwork"):
            args = {arg.name: arg for arg in op.arg}
            args["link_internal"].strings.append(b"unread")
            args["link_external"].strings.append(b"x")
            args["link_offset"].ints.append(0)
            op.arg.add(name="link_window", ints=[*[1] * (len(args["link_offset"].ints) - 1), 2])
    with pytest.raises(ConversionError, match="whole states is not converted: link 'unread' sees a window of 2 rows"):
        to_onnx(net, inputs=specs_of(drawn.inputs))
