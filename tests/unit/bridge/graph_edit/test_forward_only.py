"""forward_only: nets lose what only their gradients need, and compute the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleRun, run_oracle
from google.protobuf import text_format

from caffe2_bridge import ConversionError, forward_only
from caffe2_bridge.builder import Net, recurrent_net
from caffe2_bridge.control import nets_run_by
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

FEEDS = {
    "x": np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 10,
    "start": np.ones((2, 4), np.float32),
    "w": np.float32([1, 2, 3, 4]) / 4,
    "c": np.array([True]),
}
LOOP = """
    name: "loop" external_input: "x" external_output: "y" external_output: "ws"
    op { type: "ConstantFill" output: "c" arg { name: "shape" ints: 1 } arg { name: "value" i: 1 }
         arg { name: "dtype" i: 5 } }
    op { type: "ConstantFill" output: "n" arg { name: "shape" ints: 1 } arg { name: "value" i: 0 }
         arg { name: "dtype" i: 2 } }
    op { type: "Copy" input: "x" output: "y" }
    op { type: "CreateScope" output: "ws" }
    op { type: "While" input: "c" arg { name: "loop_net" n { name: "l"
        op { type: "Do" input: "y" input: "n" input: "ws" output: "y" output: "n" output: "c" output: "ws"
            arg { name: "inner_blobs" strings: "v" strings: "k" strings: "go" }
            arg { name: "outer_blobs_idx" ints: 0 ints: 1 ints: 4 }
            arg { name: "copy_external_blobs" i: 1 }
            arg { name: "net" n { name: "b"
                op { type: "ConstantFill" output: "one" arg { name: "shape" ints: 1 } arg { name: "value" i: 1 }
                     arg { name: "dtype" i: 2 } }
                op { type: "ConstantFill" output: "lim" arg { name: "shape" ints: 1 } arg { name: "value" i: 4 }
                     arg { name: "dtype" i: 2 } }
                op { type: "Tanh" input: "v" output: "t" }
                op { type: "Add" input: "t" input: "v" output: "v" }
                op { type: "Add" input: "k" input: "one" output: "k" }
                op { type: "LT" input: "k" input: "lim" output: "go" } } } } } } }
"""


def recurrent(*, text: bool = False) -> NetDef:
    """Return ``h' = tanh(w * h) + x``, with a backward step net, whose step workspaces the net declares."""
    net = Net("net")
    sequence, start, w = net.add_external_input("x", "start", "w")
    step = net.child("step")
    row, _, before = step.add_external_input("x_t", "timestep", "h_prev")
    after = step.Add([step.Tanh([step.Mul([before, w], "scaled")], "t"), row], "h")
    step.add_external_output(after)
    results = recurrent_net(
        net, step, [(row, sequence)], [(before, start)], {before: after}, scope="r", step_net_as_text=text
    )
    net.add_external_output(*results)
    proto = NetDef()
    proto.CopyFrom(net.proto)
    proto.external_output.append(proto.op[0].output[-1])
    return proto


def nested(inner: NetDef) -> NetDef:
    """Return the operators of a net in the taken branch of an If in an If."""
    branch = NetDef(op=inner.op)
    for _ in range(2):
        outputs = [name for op in inner.op for name in op.output]
        control = OperatorDef(type="If", input=["c", *inner.external_input], output=outputs)
        control.arg.add(name="then_net").n.CopyFrom(branch)
        branch = NetDef(op=[control])
    net = NetDef(name="outer", op=branch.op, external_input=["c", *inner.external_input])
    net.external_output[:] = [name for name in inner.external_output if not name.endswith("workspaces")]
    return net


def argument_names(net: NetDef) -> Iterator[str]:
    for op in NetView(net).ops:
        yield from op.args
        for _, body in nets_run_by(op):
            yield from argument_names(body)


def size(net: NetDef) -> int:
    return len(net.SerializeToString())


@pytest.mark.parametrize("given", [recurrent(), recurrent(text=True), nested(recurrent())], ids=["net", "text", "if"])
def test_backward_step_nets_and_training_arguments_go(given: NetDef) -> None:
    before = given.SerializeToString(deterministic=True)
    stripped = forward_only(given)
    assert given.SerializeToString(deterministic=True) == before
    gone = set(argument_names(given)) - set(argument_names(stripped))
    assert {"backward_step_net", "backward_link_internal", "param", "param_grads", "outputs_with_grads"} <= gone
    assert size(stripped) < 0.7 * size(given)
    assert list(stripped.external_output) == ["h_all", "h_last"]
    assert forward_only(stripped) == stripped


@pytest.mark.parametrize("given", [recurrent(), recurrent(text=True)], ids=["net", "text"])
def test_onnxruntime_computes_the_same(given: NetDef) -> None:
    feeds = {name: FEEDS[name] for name in given.external_input}
    shapes = {name: (array.dtype.name, array.shape) for name, array in feeds.items()}
    del given.external_output[2:]
    expected, found = (OnnxRuntime(to_onnx(net, inputs=shapes)).run(feeds) for net in (given, forward_only(given)))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.oracle
def test_real_caffe2_computes_the_same() -> None:
    loop = text_format.Parse(LOOP, NetDef())
    runs = []
    for net in (recurrent(), recurrent(text=True), nested(recurrent()), loop):
        outputs = [name for name in net.external_output if not name.endswith(("workspaces", "ws"))]
        feeds = {name: FEEDS[name] for name in net.external_input}
        runs += [OracleRun(form, inputs=feeds, outputs=outputs) for form in (net, forward_only(net))]
    results = run_oracle(runs)
    assert [result.error for result in results] == [""] * len(runs)
    for expected, found in zip(results[::2], results[1::2], strict=True):
        for name, array in expected.outputs.items():
            np.testing.assert_array_equal(found.outputs[name], array)


def do_of(net: NetDef) -> OperatorDef:
    return net.op[4].arg[0].n.op[0]


def test_a_do_keeps_one_workspace_for_all_iterations() -> None:
    stripped = forward_only(text_format.Parse(LOOP, NetDef()))
    names = {arg.name: arg for arg in do_of(stripped).arg}
    assert "copy_external_blobs" not in names
    assert names["reuse_workspace"].i == 1
    assert list(stripped.external_output) == ["y"]


def test_a_do_that_would_find_what_it_left_before_keeps_its_workspaces() -> None:
    net = text_format.Parse(LOOP, NetDef())
    body = next(arg.n for arg in do_of(net).arg if arg.name == "net")
    then = body.op.add(type="If", input=["go"], output=["t"]).arg.add(name="then_net").n
    then.op.add(type="Relu", input=["late"], output=["t"])
    body.op.add(type="Copy", input=["v"], output=["late"])
    assert "reuse_workspace" not in {arg.name for arg in do_of(forward_only(net)).arg}
    other = text_format.Parse(LOOP, NetDef())
    other.op[4].arg[0].n.op.append(do_of(other))  # two operators, one stack
    assert "reuse_workspace" not in {arg.name for arg in do_of(forward_only(other)).arg}


def test_gradient_operators_need_what_it_removes() -> None:
    net = Net("net")
    sequence, start, w = net.add_external_input("x", "start", "w")
    step = net.child("step")
    row, _, before = step.add_external_input("x_t", "timestep", "h_prev")
    after = step.Add([step.Mul([before, w], "scaled"), row], "h")
    step.add_external_output(after)
    results = recurrent_net(net, step, [(row, sequence)], [(before, start)], {before: after})
    net.SumElements(results[0], "loss")
    with pytest.raises(ConversionError, match=r"RecurrentNetworkGradient.*computes a gradient"):
        forward_only(add_gradient_operators(net.proto, ["loss"]).net)


def test_a_net_without_bodies_stays() -> None:
    net = NetDef(op=[OperatorDef(type="Relu", input=["x"], output=["y"])], external_output=["y"])
    assert forward_only(net) == net
