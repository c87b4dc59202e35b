"""What does not depend on the loop is computed before it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import pytest
from conformance.recording import operator
from support import cells
from support.cells import Recurrent
from support.netdef_interpreter import run_net

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.builder import LSTMCell, Net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_frontend import to_onnx

PRODUCTS = ("MatMul", "Gemm")


def export(cell: Recurrent, form: str) -> onnx.ModelProto:
    inputs: dict[str, Any] = {"x": ("float32", ["T", "N", cells.FEATURES]), "lengths": ("int32", ["N"])}
    net = cell.net()
    given = {name: spec for name, spec in inputs.items() if name in net.external_input}
    return to_onnx(net, cell.init(), inputs=given, recurrent=form)  # type: ignore[arg-type] # a literal


def bodies(graph: onnx.GraphProto, kind: str) -> list[onnx.GraphProto]:
    """Return the bodies of the loops of a kind, at any depth."""
    found = []
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += [attribute.g] if node.op_type == kind else []
                found += bodies(attribute.g, kind)
    return found


def outside(graph: onnx.GraphProto, kind: str) -> Counter[str]:
    """Return node types, those of loops of a kind left out, of branches counted."""
    counts = Counter(node.op_type for node in graph.node)
    for node in graph.node:
        if node.op_type != kind:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    counts += outside(attribute.g, kind)
    return counts


def types(graph: onnx.GraphProto) -> Counter[str]:
    return Counter(node.op_type for node in graph.node)


def assert_right(cell: Recurrent, model: onnx.ModelProto) -> None:
    session = Session(model.SerializeToString(), threads=1)
    for steps, batch in ((1, 2), (5, 3)):
        inputs = cells.feed(cell, steps, batch)
        blobs = run_net(cell.net(), {**cell.weights, **inputs})
        for name, value in session.run(inputs).items():
            np.testing.assert_allclose(value, blobs[name], rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("form", ["scan", "loop"])
@pytest.mark.parametrize("gates", ["one", "four"])
def test_the_input_projection_leaves_the_loop(form: str, gates: Any) -> None:
    cell = cells.lstm(projection="inside", gates=gates)
    model = export(cell, form)
    kind = form.capitalize()
    (body,) = bodies(model.graph, kind)
    inside, around = types(body), outside(model.graph, kind)
    assert sum(inside[name] for name in PRODUCTS) == 1
    assert sum(around[name] for name in PRODUCTS) == 1
    weights = {name for node in body.node for name in node.input}
    assert not any(name.startswith("i2h") for name in weights)
    assert_right(cell, model)


def test_a_scan_is_small() -> None:
    (body,) = bodies(export(cells.lstm(mask="none"), "scan").graph, "Scan")
    counts = types(body)
    assert counts["Split"] == 1
    assert counts["Sigmoid"] == 3
    assert counts["Tanh"] == 2
    assert counts["Transpose"] == counts["Concat"] == counts["Shape"] == 0
    assert counts.total() <= 19, counts


def test_inside_and_before_give_the_same_body() -> None:
    inside, before = (
        bodies(export(cells.lstm(projection=where, mask="none"), "scan").graph, "Scan")[0]  # type: ignore[arg-type]
        for where in ("inside", "before")
    )
    assert types(inside) == types(before)


def test_what_is_the_same_in_every_step_is_done_once() -> None:
    cell = cells.rnn(mask="none")
    cell.weights |= cells.weights({"p": (cells.WIDTH, cells.WIDTH), "q": (cells.WIDTH, cells.WIDTH)}, seed=3)
    cell.steps[:1] = [
        operator("Add", ["p", "q"], ["pq"]),
        operator("Tanh", ["pq"], ["matrix"]),
        operator("FC", ["h", "matrix", "w_b"], ["from_h"], axis=2),
    ]
    model = export(cell, "scan")
    (body,) = bodies(model.graph, "Scan")
    assert types(body)["Tanh"] == 1
    assert outside(model.graph, "Scan")["Tanh"] == 1
    assert_right(cell, model)


def test_arithmetic_on_the_input_alone_is_done_for_all_steps_at_once() -> None:
    cell = cells.rnn(mask="none")
    cell.steps[1:2] = [
        operator("Sigmoid", ["x_t"], ["a"]),
        operator("Mul", ["a", "x_t"], ["b"]),
        operator("Softmax", ["b"], ["c"], axis=2),
        operator("Sum", ["from_h", "c"], ["sum"]),
    ]
    model = export(cell, "scan")
    (body,) = bodies(model.graph, "Scan")
    assert not types(body).keys() & {"Sigmoid", "Mul", "Softmax"}
    session = Session(model.SerializeToString(), threads=1)
    loop = Session(export(cell, "loop").SerializeToString(), threads=1)
    inputs = cells.feed(cell, 4, 2)
    for name, value in session.run(inputs).items():
        np.testing.assert_allclose(value, loop.run(inputs)[name], rtol=1e-5, atol=1e-6)


def test_a_step_net_that_reads_no_state_is_right() -> None:
    cell = Recurrent([operator("Tanh", ["x_t"], ["next"])], {"h": "next"}, lengths=False)
    inputs = cells.feed(cell, 3, 2, features=cells.WIDTH)
    wanted = run_net(cell.net(), inputs)
    for form in ("scan", "loop"):
        specs = {"x": ("float32", ["T", "N", cells.WIDTH])}
        model = to_onnx(cell.net(), inputs=specs, recurrent=form)  # type: ignore[arg-type] # a literal
        for name, value in Session(model.SerializeToString(), threads=1).run(inputs).items():
            np.testing.assert_allclose(value, wanted[name], rtol=1e-5, err_msg=name)


def test_what_moves_out_keeps_its_place() -> None:
    model = export(cells.lstm(), "scan")
    (bias,) = (node for node in model.graph.node if "w_b" in node.input)
    place = {prop.key: prop.value for prop in bias.metadata_props}
    assert place["caffe2.op"] == "FC"
    assert " > step_net[" in place["caffe2.location"]


@pytest.mark.parametrize(("hidden", "stays"), [(128, False), (256, True)])
def test_wide_activations_of_a_gradient_stay_in_its_loop(hidden: int, *, stays: bool) -> None:
    """Their values in all steps would take more memory than they save time; products leave the loop all the same."""
    net = Net("net")
    LSTMCell(name="rnn", input_size=4, hidden_size=hidden).apply_over_sequence(net, "x", "lengths", ("h", "c"))
    made = add_gradient_operators(net.proto, {"rnn/hidden_state_all": "dy"}).net
    state = ("float32", [1, "N", hidden])
    inputs: dict[str, Any] = {
        "x": ("float32", ["T", "N", 4]),
        "lengths": ("int32", ["N"]),
        "h": state,
        "c": state,
        "dy": ("float32", ["T", "N", hidden]),
    }
    model = to_onnx(made, net.init_net, inputs=inputs, outputs=["rnn/gates_t_w_grad"])
    _, backward = bodies(model.graph, "Scan")
    assert (types(backward)["Sigmoid"] > 0) is stays
    assert sum(types(backward)[name] for name in PRODUCTS) == 1
