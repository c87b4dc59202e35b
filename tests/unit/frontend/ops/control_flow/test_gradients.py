"""Gradients through branches and loops, exported, against PyTorch's in double."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from support.exports import node_types, run
from support.gradients.control_nets import BRANCHES, LOOPS, W, X, add, branch_net, net_of, while_ops
from support.gradients.random_control import PARAMETERS, VARIABLES, draw_program

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

Arrays = Mapping[str, Any]
LEAVES = (*(f"{name}_in" for name in VARIABLES), *PARAMETERS)


def exported_gradients(net: NetDef, inputs: Arrays, names: list[str], *, sizes: bool = False) -> dict[str, Any]:
    """Return the gradients of loss ``l`` by the exported model; zeros where there is none. Sizes known on request."""
    found = add_gradient_operators(net, ["l"])
    wanted = {name: str(found.gradients[name]) for name in names if name in found.gradients}
    outputs = list(dict.fromkeys(wanted.values()))
    read = {name for op in found.net.op for name in op.input}
    specs: Any = {k: (str(v.dtype), v.shape if sizes else (None,) * v.ndim) for k, v in inputs.items() if k in read}
    model = to_onnx(found.net, inputs=specs, outputs=outputs)
    values = dict(zip(outputs, run(model, {i.name: inputs[i.name] for i in model.graph.input}), strict=True))
    return {name: values[wanted[name]] if name in wanted else np.zeros_like(inputs[name]) for name in names}


@pytest.mark.torch
@pytest.mark.parametrize("sizes", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("name", LOOPS)
def test_while(name: str, count: int, *, sizes: bool) -> None:
    import torch

    loop = LOOPS[name]
    states = loop.carried.split()
    names = ["w", *states]
    inputs: dict[str, Any] = {"n": np.array([count], np.int32), "one": np.array([1], np.int32)}
    inputs |= {"rows": np.array([1, 1], np.int32), "w": W}
    inputs |= {state: X + index / 4 for index, state in enumerate(states)}
    blobs: dict[str, Any] = {key: torch.tensor(inputs[key], dtype=torch.float64, requires_grad=True) for key in names}
    leaves = dict(blobs)
    blobs["n"] = count
    for _ in range(count):
        loop.step(blobs)
    loop.end(blobs).sum().backward()
    found = exported_gradients(loop.net(), inputs, names, sizes=sizes)
    for key, leaf in leaves.items():
        expected = np.zeros_like(inputs[key]) if leaf.grad is None else leaf.grad.numpy()
        np.testing.assert_allclose(found[key], expected, rtol=1e-4, atol=1e-5, err_msg=key)


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("name", BRANCHES)
def test_if(name: str, condition: bool) -> None:
    """Compare with differences: the exported loss at points to either side."""
    net = branch_net(name)
    inputs: dict[str, Any] = {"cond": np.array([condition]), "x": X, "w": W, "y": X, "v": X}
    found = exported_gradients(net, inputs, ["x", "w"])
    read = {blob for op in net.op for blob in op.input}
    specs: Any = {k: (str(v.dtype), v.shape) for k, v in inputs.items() if k in read}
    model = to_onnx(net, inputs=specs, outputs=["l"])

    def loss(key: str, place: tuple[int, ...], move: float) -> float:
        moved = inputs[key].copy()
        moved[place] += move
        given = inputs | {key: moved}
        return float(run(model, {i.name: given[i.name] for i in model.graph.input})[0])

    for key in ("x", "w"):
        for place in np.ndindex(X.shape):
            slope = (loss(key, place, 1e-2) - loss(key, place, -1e-2)) / 2e-2
            np.testing.assert_allclose(found[key][place], slope, rtol=2e-2, atol=3e-3, err_msg=key)


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    import torch

    program = draw_program(seed)
    values: dict[str, Any] = {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True) if value.dtype == np.float32 else value
        for name, value in program.inputs.items()
    }
    loss = program.loss(values)
    if loss.requires_grad:
        loss.backward()
    found = exported_gradients(program.net, program.inputs, list(LEAVES))
    for name in LEAVES:
        expected = np.zeros((2, 2)) if values[name].grad is None else values[name].grad.numpy()
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.torch
@pytest.mark.parametrize("count", [0, 1, 3])
def test_shapes_that_change_from_iteration_to_iteration(count: int) -> None:
    """Run ``h = concat(tanh(h), h)``: twice as many rows each time."""
    import torch

    body = [("Copy", "h", "was"), ("Tanh", "was", "m"), ("Concat", "m was", "h dims", {"axis": 0})]
    net = net_of("net", [*while_ops("h w", body), ("Mul", "h h", "z"), ("SumElements", "z", "l")])
    inputs = {"n": np.array([count], np.int32), "one": np.array([1], np.int32), "h": X, "w": W}
    h = leaf = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    for _ in range(count):
        h = torch.cat([h.tanh(), h])
    (h * h).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(exported_gradients(net, inputs, ["h"])["h"], leaf.grad, rtol=1e-4, atol=1e-5)


def test_a_stack_that_no_operator_creates_is_refused() -> None:
    net = NetDef(name="net")
    add(net, "HasScope", ["stack"], ["some"])
    with pytest.raises(ConversionError, match="stack"):
        to_onnx(net, inputs={}, outputs=["some"])


def test_a_new_stack_is_empty() -> None:
    net = net_of("net", [("CreateScope", "", "stack"), ("HasScope", "stack", "some")])
    (value,) = run(to_onnx(net, inputs={}, outputs=["some"]), {})
    assert value.tolist() == [False]


def kept_in(net: NetDef, shape: tuple[int | str | None, ...], wanted: str = "w") -> set[str]:
    """Return how a net with a loop over h keeps what its gradient reads: the types of the nodes that read it back."""
    found = add_gradient_operators(net, ["l"])
    number = ("int32", (1,))
    specs: Any = {"h": ("float32", shape), "w": ("float32", shape), "n": number, "one": number}
    read = {name for op in found.net.op for name in op.input}
    specs = {name: spec for name, spec in specs.items() if name in read}
    model = to_onnx(found.net, inputs=specs, outputs=[str(found.gradients[wanted])])
    return {"SequenceAt", "SequenceInsert", "Gather"} & set(node_types(model.graph))


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((2, 2), {"Gather"}),
        (("N", 2), {"Gather"}),
        ((None, 2), {"SequenceAt", "SequenceInsert"}),
        ((64, 128), {"SequenceAt", "SequenceInsert"}),
    ],
)
def test_a_loop_of_fixed_shapes_stacks_small_tensors(shape: tuple[int | str | None, ...], kept: set[str]) -> None:
    assert kept_in(LOOPS["one state"].net(), shape) == kept


@pytest.mark.parametrize("name", ["an If", "a loop within"])
def test_what_bodies_in_a_loop_keep_is_a_sequence(name: str) -> None:
    assert "SequenceInsert" in kept_in(LOOPS[name].net(), (2, 2))


def test_shapes_that_change_need_a_sequence() -> None:
    body = [("Copy", "h", "was"), ("Tanh", "was", "m"), ("Concat", "m was", "h dims", {"axis": 0})]
    net = net_of("net", [*while_ops("h w", body), ("Mul", "h h", "z"), ("SumElements", "z", "l")])
    assert kept_in(net, (2, 2), "h") == {"SequenceAt", "SequenceInsert"}
