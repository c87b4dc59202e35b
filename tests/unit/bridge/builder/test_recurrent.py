"""recurrent_net: what it makes of a cell of one's own, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleRun, run_oracle
from google.protobuf import text_format

from caffe2_bridge.builder import BuildError, Net, recurrent_net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.netdef.views import Args, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

X = np.arange(24, dtype=np.float32).reshape(3, 2, 4) / 10
H = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32)


def decay(net: Net, **options: Any) -> tuple[str, ...]:
    """Build ``h' = w * h + x``."""
    sequence, start, w = net.add_external_input("x", "start", "w")
    step = net.child("step")
    row, _, before = step.add_external_input("x_t", "timestep", "h_prev")
    after = step.Add([step.Mul([before, w], "scaled"), row], "h")
    step.add_external_output(after)
    return recurrent_net(
        net, step, [(row, sequence)], [(before, start)], {before: after}, timestep=net.blob("timestep"), **options
    )


def step_of(net: Net) -> Net:
    step = net.child("step")
    step.add_external_input("x_t", "timestep", "h_prev")
    return step


def args_of(net: Net) -> Args:
    return OpView(net.proto.op[-1], 0).args


def body(net: Net, name: str) -> list[str]:
    step = args_of(net).net(name)
    assert step is not None
    return [f"{op.type}: {' '.join(op.input)} -> {' '.join(op.output)}" for op in step.op]


def test_the_whole_operator() -> None:
    net = Net("net")
    assert decay(net, scope="decay") == ("h_all", "h_last")
    op = net.proto.op[0]
    args = args_of(net)
    assert (op.type, list(op.input)) == ("RecurrentNetwork", ["x", "start", "w"])
    assert list(op.output) == ["h_all", "h_last", "decay/step_workspaces"]
    assert args.texts("recurrent_states") == ("decay/h_prev_states",)
    assert args.integers("initial_recurrent_state_ids") == (1,)
    assert args.texts("link_internal") == ("h_prev", "h", "x_t")
    assert args.texts("link_external") == ("decay/h_prev_states", "decay/h_prev_states", "x")
    assert args.integers("link_offset") == (0, 1, 0)
    assert args.texts("alias_dst") == ("h_all", "h_last")
    assert args.integers("alias_offset") == (1, -1)
    assert args.text("timestep") == "timestep"
    assert args.integers("outputs_with_grads") == (0,)
    assert args.integers("param") == (2,)
    assert args.texts("param_grads") == ("w_grad",)
    assert body(net, "backward_step_net")[-1].startswith("MulGradient: ")


def test_a_gradient_with_one_reader_is_carried_without_a_copy() -> None:
    """Nothing writes ``h_prev_grad``: the states' gradient is linked to the blob that has it."""
    net = Net("net")
    x, start = net.add_external_input("x", "start")
    step = step_of(net)
    after = step.Tanh(step.Add(["h_prev", step.Mul(["x_t", "x_t"], "squared")], "sum"), "h")
    step.add_external_output(after)
    recurrent_net(net, step, [("x_t", x)], [("h_prev", start)], {"h_prev": after}, scope="s")
    assert not [line for line in body(net, "backward_step_net") if line.startswith("Copy")]


def test_a_gradient_with_several_readers_is_copied_for_each_further_one() -> None:
    """The gradient of ``h`` is that of both operands of the Sum; of several links of one blob the last would win."""
    net = Net("net")
    x, start = net.add_external_input("x", "start")
    step = step_of(net)
    step.add_external_output(step.Sum(["h_prev", "x_t"], "h"))
    recurrent_net(net, step, [("x_t", x)], [("h_prev", start)], {"h_prev": "h"}, scope="s")
    args = args_of(net)
    assert args.texts("backward_link_internal") == ("h_grad", "h_prev_grad", "x_t_grad")
    assert args.texts("backward_link_external") == ("s/h_prev_states_grad", "s/h_prev_states_grad", "x_grad")
    assert args.integers("backward_link_offset") == (1, 0, 0)
    assert body(net, "backward_step_net") == ["Copy: h_grad -> h_prev_grad", "Copy: h_grad -> x_t_grad"]


def test_a_gradient_from_outside_is_added() -> None:
    net = Net("net")
    x, start = net.add_external_input("x", "start")
    step = step_of(net)
    first = step.Tanh(step.Sum(["h_prev", "c_prev", "x_t"], "sum"), "first")
    step.add_external_output(first, step.Sigmoid(first, "second"))
    links = {"h_prev": "first", "c_prev": "second"}
    recurrent_net(net, step, [("x_t", x)], [("h_prev", start), ("c_prev", start)], links)
    assert body(net, "backward_step_net")[:2] == [
        "SigmoidGradient: second second_grad -> first_grad_accum",
        "Sum: first_grad first_grad_accum -> first_grad",
    ]


def test_recomputed_blobs_come_first_and_are_not_kept() -> None:
    net = Net("net")
    decay(net, recompute_blobs_on_backward=["scaled"])
    assert body(net, "backward_step_net")[0] == "Mul: h_prev w -> scaled"
    assert args_of(net).texts("recompute_blobs_on_backward") == ("scaled",)


def test_forward_only_says_nothing_of_gradients() -> None:
    net = Net("net")
    decay(net, forward_only=True)
    assert not [name for name in args_of(net) if "backward" in name or "grad" in name or name == "param"]


def test_both_forms_of_step_nets() -> None:
    nets, texts = Net("net"), Net("net")
    decay(nets)
    decay(texts, step_net_as_text=True)
    kinds = {arg.name: arg for arg in texts.proto.op[0].arg}
    for name in ("step_net", "backward_step_net"):
        assert text_format.Parse(kinds[name].s, NetDef()) == args_of(nets).net(name)


def test_two_nets_have_scopes_of_their_own() -> None:
    net = Net("net")
    decay(net)
    decay(net)
    with net.name_scope("deep"):
        decay(net)
        decay(net, scope="mine")
    assert [op.output[-1] for op in net.proto.op] == [
        "net/recurrent/step_workspaces",
        "net/recurrent_2/step_workspaces",
        "deep/net/recurrent/step_workspaces",
        "deep/mine/step_workspaces",
    ]
    states = [OpView(op, 0).args.texts("recurrent_states")[0] for op in net.proto.op]
    assert states[:2] == ["net/recurrent/h_prev_states", "net/recurrent_2/h_prev_states"]


def test_the_cell_is_left_as_it_is() -> None:
    net = Net("net")
    step = step_of(net)
    step.add_external_output(step.Tanh("h_prev", "h"))
    before = step.proto.SerializeToString()
    for cell in (step, step.proto, before):
        recurrent_net(net, cell, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"}, forward_only=True)
    assert step.proto.SerializeToString() == before
    assert len({op.SerializeToString() for op in net.proto.op}) == 3  # they differ in their scopes


def refusals() -> dict[str, tuple[Any, str]]:
    def two_sequences(net: Net) -> None:
        recurrent_net(net, step_of(net), [("a", "x"), ("b", "x")], [], {})

    def no_link(net: Net) -> None:
        recurrent_net(net, step_of(net), [("x_t", "x")], [("h_prev", "start")], {})

    def nothing_writes_it(net: Net) -> None:
        recurrent_net(net, step_of(net), [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"})

    def no_gradient(net: Net) -> None:
        step = step_of(net)
        step.add_external_output(step.Floor(step.Add(["h_prev", "x_t"], "sum"), "h"))
        step.Find(["h", "x_t"], "found")
        step.add_external_output("found")
        recurrent_net(net, step, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"})

    def input_without_gradient(net: Net) -> None:
        step = step_of(net)
        step.add_external_output(step.Tanh("h_prev", "h"))
        recurrent_net(net, step, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"})

    def sparse(net: Net) -> None:
        step = step_of(net)
        rows = step.Gather(["table", "indices"], "rows")
        step.add_external_output(step.Add(["h_prev", step.Mul([rows, "x_t"], "scaled")], "h"))
        recurrent_net(net, step, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"})

    def recompute_half(net: Net) -> None:
        step = step_of(net)
        step.Split(step.Add(["h_prev", "x_t"], "sum"), ["a", "b"], axis=2)
        step.add_external_output(step.Concat(["a", "b"], ["h", "dims"], axis=2)[0])
        recurrent_net(
            net, step, [("x_t", "x")], [("h_prev", "start")], {"h_prev": "h"}, recompute_blobs_on_backward=["a"]
        )

    return {
        "two_sequences": (two_sequences, "a recurrent net must have one input sequence, not 2"),
        "no_link": (no_link, "step: links must map 'h_prev' to the output"),
        "nothing_writes_it": (nothing_writes_it, "step must write 'h', to which 'h_prev' is linked"),
        "no_gradient": (no_gradient, "step cannot be differentiated: .*Find.*; pass forward_only to omit its gradient"),
        "input_without_gradient": (
            input_without_gradient,
            "step: 'x_t' has no gradient; pass forward_only",
        ),
        "sparse": (sparse, "step: the gradient of 'table' must be dense, not sparse"),
        "recompute_half": (recompute_half, r"step\[1\] Split also writes 'b', which must be recomputed too"),
    }


@pytest.mark.parametrize("name", refusals())
def test_what_cannot_be_built(name: str) -> None:
    build, reason = refusals()[name]
    net = Net("net")
    with pytest.raises(BuildError, match=reason):
        build(net)
    assert not net.proto.op


def expected() -> Any:
    rows, state = [], H
    for row in X:
        state = 0.5 * state + row
        rows.append(state)
    return np.stack(rows)


@pytest.mark.parametrize("as_text", [False, True])
def test_it_runs_on_onnxruntime(as_text: bool) -> None:
    net = Net("net")
    net.add_external_output(*decay(net, step_net_as_text=as_text))
    inputs = {"x": X, "start": H, "w": np.full(4, 0.5, np.float32)}
    model = to_onnx(net.proto, inputs={name: (value.dtype, value.shape) for name, value in inputs.items()})
    rows, last = OnnxRuntime(model).run(inputs)
    np.testing.assert_allclose(rows, expected(), rtol=1e-6)
    np.testing.assert_allclose(last, expected()[-1:], rtol=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("as_text", [False, True])
def test_it_runs_and_trains_in_real_caffe2(as_text: bool) -> None:
    net = Net("net")
    rows, _ = decay(net, step_net_as_text=as_text)
    net.SumElements(rows, "loss")
    made = add_gradient_operators(net.proto, ["loss"])
    w = np.full(4, 0.5, np.float32)
    wanted = [rows, str(made.gradients["w"]), str(made.gradients["x"]), str(made.gradients["start"])]
    (result,) = run_oracle([OracleRun(made.net, {"x": X, "start": H, "w": w}, outputs=wanted)])
    assert not result.error
    ours, w_grad, x_grad, start_grad = (result.outputs[name] for name in wanted)
    states = np.concatenate([H[None], expected()])
    weights = np.array([1.75, 1.5, 1], np.float32)[:, None, None]  # how often a row counts: 1 + w + w^2, 1 + w, 1
    np.testing.assert_allclose(ours, expected(), rtol=1e-6)
    np.testing.assert_allclose(x_grad, np.broadcast_to(weights, X.shape), rtol=1e-6)
    np.testing.assert_allclose(w_grad, (weights * states[:-1]).sum(axis=(0, 1)), rtol=1e-6)
    np.testing.assert_allclose(start_grad.reshape(H.shape), np.full_like(H, 0.875), rtol=1e-6)


def test_an_operator_is_one_of_the_net() -> None:
    net = Net("net")
    rows, _ = decay(net)
    assert net.Relu(rows, "y") == "y"
    assert isinstance(net.proto.op[0], OperatorDef)
    assert list(net.proto.external_input) == ["x", "start", "w"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"outputs_with_grads": [2]}, "outputs_with_grads .*: 2 must be an integer from 0 to 1"),
        ({"outputs_with_grads": [-1]}, "outputs_with_grads .*: -1 must be"),
        ({"outputs_with_grads": ["h_all"]}, "outputs_with_grads .*: 'h_all' must be"),
        ({"outputs_with_grads": [0, 0]}, "outputs_with_grads .*: 0 is given twice"),
        ({"outputs_with_grads": 0}, "outputs_with_grads must be a list of indices of the 2 results, not 0"),
        ({"recompute_blobs_on_backward": ["other"]}, "recompute_blobs_on_backward .* does not write 'other'"),
        ({"recompute_blobs_on_backward": "scaled"}, "recompute_blobs_on_backward must be a collection"),
    ],
)
def test_arguments_of_the_gradient_must_refer_to_results_and_blobs(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        decay(Net("net"), **options)


@pytest.mark.parametrize(
    ("inputs", "states", "links", "reason"),
    [
        ([("x_t", "x")], [("h_prev", "s"), ("h_prev", "s")], {"h_prev": "h"}, "lists 'h_prev' twice"),
        ([("x_t", "x")], [("h_prev", "s"), ("g", "s")], {"h_prev": "h", "g": "h"}, "links maps both 'h_prev' and 'g'"),
        ([("x_t", "x")], [("x_t", "s")], {"x_t": "h"}, "must not list 'x_t'"),
        ([("x_t", "x")], [], {}, "initial_cell_inputs must list at least one state"),
        (["x_t"], [("h_prev", "s")], {"h_prev": "h"}, "inputs must hold pairs .*, not 'x_t'"),
        ([("x_t", "x")], "h_prev", {"h_prev": "h"}, "initial_cell_inputs must be a list of pairs"),
    ],
)
def test_states_and_sequences_are_pairs_and_given_once(inputs: Any, states: Any, links: Any, reason: str) -> None:
    net = Net("net")
    net.add_external_input("x", "s")
    step = step_of(net)
    step.add_external_input("g")
    step.add_external_output(step.Add(["h_prev", "x_t"], "h"))
    with pytest.raises(BuildError, match=reason):
        recurrent_net(net, step, inputs, states, links)
