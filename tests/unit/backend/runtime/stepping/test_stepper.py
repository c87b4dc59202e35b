from __future__ import annotations

import numpy as np
import pytest
from conformance.corpus import find_cases, read_case
from conformance.recording import operator
from support.cells import feed, lstm
from support.netdef_interpreter import run_net
from support.paths import MODELS

from caffe2_backend import Workspace
from caffe2_bridge import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


def test_every_blob_of_every_operator() -> None:
    ops = [operator("Relu", ["x"], ["y"]), operator("Negative", ["y"], ["y"]), operator("Copy", ["y"], ["z"])]
    workspace = Workspace()
    workspace.feed("x", X)
    workspace.create_net(NetDef(name="n", op=ops, external_input=["x"], external_output=["z"]))
    trace = workspace.run_net("n", every_blob=True)
    assert [(str(step.location), list(step.blobs)) for step in trace] == [
        ("n[0] Relu", ["y"]), ("n[1] Negative", ["y"]), ("n[2] Copy", ["z"]),
    ]  # fmt: skip
    np.testing.assert_array_equal(trace.steps[0].blobs["y"], np.maximum(X, 0))
    np.testing.assert_array_equal(trace.blobs["y"], -np.maximum(X, 0))
    np.testing.assert_array_equal(workspace.fetch("z"), trace.blobs["z"])
    assert len(workspace.run_net("n", every_blob=True, capture=False).blobs) == 0


@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.parametrize(
    "name", ["lstm", "gru", "basic_rnn_tanh", "attention_regular", "control_while_if", "control_if_else", "milstm"]
)
def test_steps_compute_what_caffe2_computed(name: str, bodies: bool) -> None:
    for ref in find_cases(MODELS / name):
        case = read_case(ref)
        assert case.init_net is not None
        workspace = Workspace()
        workspace.run_net_once(case.init_net)
        for blob, array in case.inputs.items():
            workspace.feed(blob, array)
        workspace.create_net(case.net)
        trace = workspace.run_net(case.net.name, every_blob=True, bodies=bodies)
        for blob, array in case.outputs.items():
            np.testing.assert_allclose(workspace.fetch(blob), array, rtol=1e-3, atol=1e-4)
        inside = [step for step in trace if step.location.path]
        assert bool(inside) == bodies


def test_steps_of_a_recurrent_net_say_which_iteration() -> None:
    cell = lstm()
    net, inputs = cell.net(), feed(cell, 3, 2)
    workspace = Workspace()
    workspace.run_net_once(cell.init())
    for name, array in inputs.items():
        workspace.feed(name, array)
    workspace.create_net(net)
    trace = workspace.run_net("recurrent", every_blob=True, bodies=True)
    loop = [step for step in trace if step.location.path]
    assert {step.iterations for step in loop} == {(0,), (1,), (2,)}
    assert len(loop) == 3 * len(cell.steps)
    known = run_net(net, {**inputs, **cell.weights})
    for name in net.external_output:
        np.testing.assert_allclose(trace.blobs[name], known[name], rtol=1e-4, atol=1e-5)
    last = [step.blobs for step in loop if step.iterations == (2,)]
    state = next(iter(cell.states.values()))
    final = next(blobs[state] for blobs in reversed(last) if state in blobs)
    name = f"{next(iter(cell.states))}_last"
    np.testing.assert_allclose(final, known[name], rtol=1e-4, atol=1e-5)


def test_a_branch_is_entered_or_not() -> None:
    then = NetDef(name="t", op=[operator("Negative", ["x"], ["y"])])
    other = NetDef(name="e", op=[operator("Copy", ["x"], ["y"])])
    net = NetDef(name="n", op=[operator("If", ["c"], ["y"], then_net=then, else_net=other)], external_input=["c", "x"])
    workspace = Workspace()
    workspace.create_net(net)
    workspace.feed("x", X)
    for condition, expected in ((True, "n[0] If > then_net[0] Negative"), (False, "n[0] If > else_net[0] Copy")):
        workspace.feed("c", np.array([condition]))
        trace = workspace.run_net("n", every_blob=True, bodies=True)
        assert str(trace.steps[0].location) == expected
        np.testing.assert_array_equal(trace.blobs["y"], -X if condition else X)


def test_a_condition_of_several_elements_is_refused() -> None:
    net = NetDef(name="n", op=[operator("If", ["c"], ["y"], then_net=NetDef(name="t"))], external_input=["c"])
    workspace = Workspace()
    workspace.create_net(net)
    workspace.feed("c", np.array([True, False]))
    with pytest.raises(RunError, match=r"n\[0\] If: the condition 'c' has 2 elements"):
        workspace.run_net("n", every_blob=True, bodies=True)


@pytest.mark.parametrize("host_operator", [False, True])
def test_a_step_reads_a_state_in_the_shape_in_which_it_wrote_it(host_operator: bool) -> None:
    """Link the state to rows [1, N, D], write it as [N, D], and read it again by an FC of the same step."""
    step = NetDef(name="step", external_input=["x_t", "h_prev", "w", "b"], external_output=["h", "y"])
    step.op.extend([operator("Squeeze", ["x_t"], ["q"], dims=[0]), operator("Tanh", ["q"], ["h"])])
    step.op.append(operator("FC", ["h", "w", "b"], ["y"]))
    if host_operator:  # steps with one are run one by one in every run
        step.op.insert(2, operator("CountUp", ["counter"], ["count"]))
    op = operator(
        "RecurrentNetwork", ["x", "h0", "w", "b"], ["h_all", "h_last", "y_all", "step_workspaces"],
        link_internal=["x_t", "h_prev", "y_prev", "h", "y"], link_external=["x", "hs", "ys", "hs", "ys"],
        link_offset=[0, 0, 0, 1, 1], recurrent_states=["hs", "ys"], initial_recurrent_state_ids=[1, 1],
        alias_src=["hs", "hs", "ys"], alias_dst=["h_all", "h_last", "y_all"], alias_offset=[1, -1, 1],
        step_net=step, timestep="timestep",
    )  # fmt: skip
    x = np.array([[[0.5, -1, 2], [1, 0, -2]], [[3, -0.5, 0], [0.25, 1, -1]]], np.float32)
    w = np.array([[1, 2, 3], [0, 1, -1], [2, 0, 1]], np.float32)
    for bodies in (False, True):
        workspace = Workspace()
        feeds = {"x": x, "h0": np.zeros((2, 3), np.float32), "w": w, "b": np.ones(3, np.float32)}
        for name, value in feeds.items():
            workspace.feed(name, value)
        workspace.run_operator_once(operator("CreateCounter", [], ["counter"], init_count=0))
        workspace.create_net(NetDef(name="net", op=[op], external_input=[*feeds, "counter"], external_output=["y_all"]))
        trace = workspace.run_net("net", every_blob=True, bodies=bodies)
        np.testing.assert_allclose(workspace.fetch("y_all"), np.tanh(x) @ w.T + 1, rtol=1e-6)
        np.testing.assert_allclose(workspace.fetch("h_all"), np.tanh(x), rtol=1e-6)
        if bodies:
            assert [s.blobs["h"].shape for s in trace if s.location.op_type == "Tanh"] == [(2, 3), (2, 3)]
