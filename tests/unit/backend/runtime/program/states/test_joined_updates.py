"""Updates that optimizers make of several states are found, compared and joined; results stay equal bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.program.buffers import pool
from caffe2_backend.runtime.program.states.joined_updates import Joined, join_updates
from caffe2_backend.runtime.program.states.update_cones import updates
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.inference.shape_inference import infer_shapes

Arrays = dict[str, np.ndarray[Any, Any]]
MOMENTUM = """
    g{0} = Relu(d{0})
    a{0} = Mul(m{0}, rate)
    n{0} = Add(a{0}, g{0})
    s{0} = Mul(n{0}, lr)
    q{0} = Sub(w{0}, s{0})
"""


def model(inputs: str, outputs: str, body: str, constants: str = "") -> ir.Model:
    """Return a model; the shapes of its values are inferred."""
    head = '<ir_version: 9, opset_import: ["" : 20]>'
    text = f"{head} g ({inputs}) => ({outputs}) <float rate = {{0.9}}, float lr = {{0.1}} {constants}> {{ {body} }}"
    return ir.from_proto(infer_shapes(onnx.parser.parse_model(text), strict_mode=True))


def momentum(shapes: Mapping[int, str], extra: str = "", outputs: str = "") -> tuple[ir.Model, dict[str, str]]:
    """Return weights and moments of some shapes, updated alike."""
    inputs = ", ".join(f"float[{s}] w{i}, float[{s}] m{i}, float[{s}] d{i}" for i, s in shapes.items())
    results = ", ".join(f"float[{s}] q{i}, float[{s}] n{i}" for i, s in shapes.items())
    body = "".join(MOMENTUM.format(i) for i in shapes)
    states = {f"w{i}": f"q{i}" for i in shapes} | {f"m{i}": f"n{i}" for i in shapes}
    return model(inputs, results + outputs, body + extra), states


def feeds(graph: ir.Graph) -> Arrays:
    random = np.random.default_rng(0)
    return {
        str(value.name): random.standard_normal([int(dim) for dim in value.shape or ()]).astype(np.float32)  # type: ignore[arg-type]  # static
        for value in graph.inputs
    }


def run(net: ir.Model, values: Arrays) -> Arrays:
    session = Session(ir.to_proto(net).SerializeToString())
    return session.run({name: values[name] for name in session.inputs})


def run_joined(joined: Joined, values: Arrays) -> Arrays:
    """Run a joined model on the inputs of the original one: that one's outputs."""
    given = dict(values)
    for buffer in joined.buffers:
        parts = [values[name].reshape(np.prod(shape, dtype=int), -1) for name, _, shape in buffer.members]
        given[buffer.input] = np.concatenate([part.reshape(-1) for part in parts])
    results = run(joined.model, given)
    for buffer in joined.buffers:
        flat, start = results.pop(buffer.output), 0
        for _, output, shape in buffer.members:
            size = int(np.prod(shape))
            results[output] = flat.reshape(-1)[start : start + size].reshape(shape)
            start += size
    return results


def test_equal_updates_are_joined() -> None:
    net, states = momentum({0: "3, 4", 1: "4", 2: "2, 1, 5"})
    found = updates(net, states)
    assert [update.states for update in found] == [("w0", "m0"), ("w1", "m1"), ("w2", "m2")]
    assert len({update.key for update in found}) == 1
    joined = join_updates(net, states)
    assert joined is not None
    assert [[name for name, _, _ in buffer.members] for buffer in joined.buffers] == [
        ["w0", "w1", "w2"], ["m0", "m1", "m2"]
    ]  # fmt: skip
    assert sum(node.op_type in ("Add", "Mul", "Sub") for node in joined.model.graph) == 4
    values = feeds(net.graph)
    found_values, expected = run_joined(joined, values), run(net, values)
    assert found_values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found_values[name], value, err_msg=name)
    assert not [value.name for value in joined.model.graph.inputs if str(value.name).startswith(("w", "m"))]


def test_the_given_model_stays() -> None:
    net, states = momentum({0: "3, 4", 1: "4"})
    before = ir.to_proto(net).SerializeToString()
    assert join_updates(net, states)
    assert ir.to_proto(net).SerializeToString() == before


def test_a_state_that_others_read_stays_an_input() -> None:
    net, states = momentum({0: "3, 4", 1: "4"}, "y = Exp(w0)", ", float[3, 4] y")
    joined = join_updates(net, states)
    assert joined is not None
    names = [value.name for value in joined.model.graph.inputs]
    assert "w0" in names
    assert "w1" not in names


@pytest.mark.parametrize(
    ("extra", "output"),
    [("y = Exp(q0)", "y"), ("y = Exp(s0)", "y"), ("y = Identity(a0)", "y"), ("", "s0")],
    ids=["the new value", "a value of the cone", "a copy", "an output"],
)
def test_an_update_that_others_read_is_not_joined(extra: str, output: str) -> None:
    net, states = momentum({0: "3, 4", 1: "4"}, extra, f", float[3, 4] {output}")
    joined = join_updates(net, states)
    if joined is not None:  # what nobody else reads
        values = feeds(net.graph)
        expected, found = run(net, values), run_joined(joined, values)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert ("w0", "m0") not in [update.states for update in updates(net, states) if len(update.nodes) == 4]


def test_updates_that_differ_are_not_joined() -> None:
    net, states = momentum({0: "3, 4", 1: "4"})
    for node in list(net.graph):
        if node.outputs[0].name == "a1":
            node.replace_input_with(1, net.graph.initializers["lr"])
    assert join_updates(net, states) is None
    single, states = momentum({0: "3, 4"})
    assert join_updates(single, states) is None


def test_large_states_are_not_joined() -> None:
    """Copying their gradients would take longer than the nodes that joining saves."""
    net, states = momentum({0: "3, 4", 1: "4", 2: "100, 50"})
    joined = join_updates(net, states)
    assert joined is not None
    assert [[name for name, _, _ in buffer.members] for buffer in joined.buffers] == [["w0", "w1"], ["m0", "m1"]]


def test_sizes_that_are_not_known_are_not_joined() -> None:
    net, states = momentum({0: "N", 1: "M"})
    assert not updates(net, states)
    broadcast = model(
        "float[4] w, float[3, 4] x, float[4] v, float[3, 4] y", "float[3, 4] p, float[3, 4] q",
        "p = Add(w, x) q = Add(v, y)",
    )  # fmt: skip
    assert not updates(broadcast, {"w": "p", "v": "q"})


PAIR = """
    o{0} = Gather <axis: int = -1> (z{0}, zero)
    t{0} = Gather <axis: int = -1> (z{0}, one)
    e{0} = Relu(d{0})
    f{0} = Add(o{0}, e{0})
    h{0} = Sub(t{0}, f{0})
    w{0}x = Mul(h{0}, w{0})
    j{0} = Unsqueeze(f{0}, last{0})
    k{0} = Unsqueeze(h{0}, last{0})
    z{0}x = Concat <axis: int = -1> (j{0}, k{0})
"""


def test_states_of_two_numbers_for_each_element() -> None:
    net = model(
        "float[3, 2] w0, float[3, 2, 2] z0, float[3, 2] d0, float[2] w1, float[2, 2] z1, float[2] d1",
        "float[3, 2] w0x, float[3, 2, 2] z0x, float[2] w1x, float[2, 2] z1x",
        PAIR.format(0) + PAIR.format(1),
        ", int64 zero = {0}, int64 one = {1}, int64[1] last0 = {2}, int64[1] last1 = {1}",
    )
    joined = join_updates(net, {"w0": "w0x", "z0": "z0x", "w1": "w1x", "z1": "z1x"})
    assert joined is not None
    (buffer,) = [buffer for buffer in joined.buffers if buffer.members[0][0] == "z0"]
    values = feeds(net.graph)
    flat = {
        joined.buffers[i].input: np.concatenate([values[f"{name}0"].reshape(shape), values[f"{name}1"]])
        for i, (name, shape) in enumerate([("w", (6,)), ("z", (6, 2))])
    }
    results, expected = run(joined.model, {**values, **flat}), run(net, values)
    np.testing.assert_array_equal(results[buffer.output][:6].reshape(3, 2, 2), expected["z0x"])
    np.testing.assert_array_equal(results[buffer.output][6:], expected["z1x"])
    other = next(other for other in joined.buffers if other is not buffer)
    np.testing.assert_array_equal(results[other.output][:6].reshape(3, 2), expected["w0x"])


OPTIMIZERS: dict[str, tuple[int, list[str], list[str], dict[str, float]]] = {
    "Adam": (2, ["p", "m0", "m1", "g", "lr", "iter"], ["p", "m0", "m1"], {}),
    "Adagrad": (1, ["p", "m0", "g", "lr"], ["p", "m0"], {}),
    "MomentumSGDUpdate": (1, ["g", "m0", "lr", "p"], ["g", "m0", "p"], {"momentum": 0.9, "nesterov": 1}),
    "WeightedSum": (0, ["p", "one", "g", "lr"], ["p"], {}),
}


def training_net(kind: str) -> tuple[list[OperatorDef], Arrays]:
    """Return a net of three layers, of a width that no vector register divides, and their optimizer."""
    random = np.random.default_rng(3)
    ops, values, x = [], {}, "x"
    for i in range(3):
        values[f"w{i}"] = random.standard_normal((7, 7)).astype(np.float32)
        values[f"b{i}"] = random.standard_normal(7).astype(np.float32)
        ops += [operator("FC", [x, f"w{i}", f"b{i}"], [f"f{i}"]), operator("Tanh", [f"f{i}"], [f"t{i}"])]
        x = f"t{i}"
    ops.append(operator("SquaredL2Distance", [x, "x"], ["loss"]))
    made = add_gradient_operators(NetDef(name="step", op=ops), ["loss"])
    moments, inputs, outputs, args = OPTIMIZERS[kind]
    ops = [*made.net.op, operator("Iter", ["iter"], ["iter"])]
    for name in list(values):
        values |= {f"{name}m{i}": np.zeros_like(values[name]) for i in range(moments)}
        own = {"p": name, "g": str(made.gradients[name]), **{f"m{i}": f"{name}m{i}" for i in range(moments)}}
        both = [[own.get(blob, blob) for blob in blobs] for blobs in (inputs, outputs)]
        ops.append(operator(kind, *both, **args))
    values |= {"x": random.standard_normal((5, 7)).astype(np.float32), "iter": np.zeros(1, np.int64)}
    return ops, values | {"lr": np.full(1, -0.1, np.float32), "one": np.ones(1, np.float32)}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_train_the_same_joined(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ops, values = training_net(kind)

    def trained(*, small: int) -> tuple[Workspace, Arrays]:
        monkeypatch.setattr(pool, "SMALL", small)
        workspace = Workspace()
        for name, value in values.items():
            workspace.feed(name, value)
        workspace.create_net(NetDef(name="step", op=ops, external_output=["loss"]))
        for times in (1, 1, 3, 2):
            workspace.run_net("step", times)
        return workspace, {name: np.asarray(workspace.fetch(name)) for name in (*values, "loss")}

    workspace, found = trained(small=1 << 20)
    stage: Any = workspace._nets["step"].stages[0]
    (variant,) = stage.program._variants.values()
    (buffer, *_) = variant.pool._step_session.buffers
    assert len(buffer.members) == 6
    _, expected = trained(small=-1)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
