"""If and While: what is built, and what it computes, on onnxruntime and in real Caffe2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from conformance.corpus import find_cases, read_net
from conformance.executors import OnnxRuntime
from conformance.oracle import OracleRun, run_oracle
from support.paths import ROOT

from caffe2_bridge.builder import Blob, BuildError, Net, add_if_op, add_while_op
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from caffe2_bridge.ssa import check_dataflow
from caffe2_frontend import to_onnx

X = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
TRUE, FALSE = np.array([True]), np.array([False])


def branching(*, other: bool) -> Net:
    net = Net("branching")
    net.add_external_input("cond", "x")
    net.op("Copy", "x", "y")
    then = net.child("then")
    then.op("Relu", "x", "local")
    then.op("Scale", "local", "y", scale=2.0)
    if other:
        otherwise = net.child("otherwise")
        otherwise.op("Negative", "x", "y")
        add_if_op(net, "cond", then, otherwise)
    else:
        add_if_op(net, "cond", then)
    net.add_external_output("y")
    return net


def doubling() -> Net:
    """Return a net that doubles ``x`` until its sum is over ``limit``, and counts the rounds."""
    net = Net("doubling")
    net.add_external_input("x", "limit")
    net.op("Copy", "x", "y")
    net.op("ConstantFill", (), "rounds", shape=[1], value=0.0)
    condition = net.child("condition")
    condition.op("SumElements", "y", "total")
    condition.op("LE", ("total", "limit"), "going_on", broadcast=1)
    body = net.child("body")
    body.op("Add", ("y", "y"), "twice")
    body.op("Copy", "twice", "y")
    body.op("ConstantFill", (), "one", shape=[1], value=1.0)
    body.op("Add", ("rounds", "one"), "rounds")
    add_while_op(net, "going_on", body, condition)
    net.add_external_output("y", "rounds")
    return net


def counting_down() -> Net:
    """Return a loop whose body, with an If on a condition of its own, writes the loop's condition: there is no net."""
    net = Net("counting_down")
    net.add_external_input("going_on", "n", "x")
    net.op("Copy", "x", "y")
    net.op("Copy", "n", "left")
    body = net.child("body")
    body.op("ConstantFill", (), "one", shape=[1], value=1.0)
    body.op("ConstantFill", (), "zero", shape=[1], value=0.0)
    body.op("Sub", ("left", "one"), "left")
    body.op("GT", ("left", "zero"), "going_on")
    body.op("ConstantFill", (), "two", shape=[1], value=2.0)
    body.op("GT", ("left", "two"), "early")
    then, otherwise = body.child("then"), body.child("otherwise")
    then.op("Scale", "y", "y", scale=3.0)
    otherwise.op("Add", ("y", "x"), "y")
    add_if_op(body, "early", then, otherwise)
    add_while_op(net, "going_on", body)
    net.add_external_output("y", "left")
    return net


@dataclass(frozen=True)
class Run:
    make: Callable[[], Net]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


def array(*values: float) -> Any:
    return np.array(values, np.float32)


RUNS = {
    "if_true": Run(lambda: branching(other=True), {"cond": TRUE, "x": X}, {"y": 2 * np.maximum(X, 0)}),
    "if_false": Run(lambda: branching(other=True), {"cond": FALSE, "x": X}, {"y": -X}),
    "if_without_else_true": Run(lambda: branching(other=False), {"cond": TRUE, "x": X}, {"y": 2 * np.maximum(X, 0)}),
    "if_without_else_false": Run(lambda: branching(other=False), {"cond": FALSE, "x": X}, {"y": X}),
    "while": Run(doubling, {"x": X, "limit": array(9)}, {"y": 4 * X, "rounds": array(2)}),
    "while_no_round": Run(doubling, {"x": X, "limit": array(2)}, {"y": X, "rounds": array(0)}),
    "while_if": Run(counting_down, {"going_on": TRUE, "n": array(5), "x": X}, {"y": 9 * X + 3 * X, "left": array(0)}),
    "while_if_no_round": Run(counting_down, {"going_on": FALSE, "n": array(5), "x": X}, {"y": X, "left": array(5)}),
}


@pytest.mark.parametrize("name", RUNS)
def test_on_onnxruntime(name: str) -> None:
    run = RUNS[name]
    net = run.make().proto
    assert not check_dataflow(net)
    inputs = {blob: (value.dtype, value.shape) for blob, value in run.inputs.items()}
    results = OnnxRuntime(to_onnx(net, inputs=inputs)).run(run.inputs)
    for result, blob in zip(results, net.external_output, strict=True):
        np.testing.assert_allclose(result, run.outputs[blob], rtol=1e-6)


@pytest.mark.oracle
def test_in_real_caffe2() -> None:
    runs = list(RUNS.values())
    results = run_oracle([OracleRun(run.make().proto, run.inputs, outputs=list(run.outputs)) for run in runs])
    for run, result in zip(runs, results, strict=True):
        assert not result.error
        for blob, value in run.outputs.items():
            np.testing.assert_allclose(result.outputs[blob], value, rtol=1e-6)


def do_of(op: OperatorDef, name: str) -> OperatorDef:
    net = OpView(op, 0).args.net(name)
    assert net is not None
    (do,) = net.op
    return do


def test_operands_stand_in_the_order_of_first_use() -> None:
    net = doubling().proto
    *_, scope_body, scope_condition, loop = net.op
    assert (scope_body.type, scope_condition.type, loop.type) == ("CreateScope", "CreateScope", "While")
    assert list(loop.input) == [
        "going_on",
        "y",
        "rounds",
        "limit",
        "doubling/workspace_loop_body",
        "doubling/workspace_loop_cond",
    ]
    assert list(loop.output) == [
        "y",
        "rounds",
        "going_on",
        "doubling/workspace_loop_body",
        "doubling/workspace_loop_cond",
    ]
    body = do_of(loop, "loop_net")
    args = OpView(body, 0).args
    assert list(body.input) == ["y", "rounds", "doubling/workspace_loop_body"]
    assert list(body.output) == ["y", "rounds", "doubling/workspace_loop_body"]
    assert args.texts("inner_blobs") == ("y", "rounds")
    assert args.integers("outer_blobs_idx") == (0, 1)
    assert args.flag("copy_external_blobs")
    assert doubling().proto == net


def test_a_condition_nobody_made_is_false_before_the_loop() -> None:
    fill = next(op for op in doubling().proto.op if "going_on" in op.output and op.type == "ConstantFill")
    args = OpView(fill, 0).args
    assert (args.integer("dtype"), args.flag("value")) == (TensorProto.BOOL, False)


def test_two_of_a_kind_have_workspaces_of_their_own() -> None:
    net = branching(other=True)
    add_if_op(net, "cond", net.child("empty"))
    scopes = [op.output[0] for op in net.proto.op if op.type == "CreateScope"]
    assert scopes == [
        "branching/workspace_if_then",
        "branching/workspace_if_else",
        "branching/workspace_if_then_auto_0",
    ]


def test_a_body_sees_what_the_nets_around_it_see_and_no_more() -> None:
    net = Net("outer")
    net.add_external_input("cond", "x")
    body = net.child("body")
    body.op("Relu", "x", "y")
    assert set(body.lexical_scope) == {"cond", "x", "y"}
    assert add_if_op(net, "cond", body) == ()
    body.op("Add", ("y", "nowhere"), "z")
    with pytest.raises(BridgeError, match="body reads blobs that its scope lacks: 'nowhere'"):
        add_if_op(net, "cond", body)
    assert add_if_op(net, "cond", body, lexical_scope=["x", "nowhere", "z"]) == (Blob("z"),)


def test_a_condition_net_that_writes_no_condition_is_refused() -> None:
    net = Net("outer")
    net.add_external_input("going_on", "x")
    condition, body = net.child("condition"), net.child("body")
    condition.op("Relu", "x", "y")
    body.op("Relu", "x", "x")
    with pytest.raises(BuildError, match="'condition' must write the condition 'going_on'"):
        add_while_op(net, "going_on", body, condition)


@cache
def recorded() -> dict[str, tuple[NetDef, OperatorDef]]:
    """Return the Ifs and Whiles of the corpus that Caffe2's own helper built; each with its net."""
    golden = ROOT / "tests" / "golden"
    refs = [ref for path in ("nets/brew_test.npz", "models") for ref in find_cases(golden / path)]
    found: dict[bytes, tuple[str, NetDef, OperatorDef]] = {}
    for ref in refs:
        if ref.kind != "op" and (ref.path.suffix == ".npz" or ref.path.name.startswith("control")):
            net = read_net(ref)
            for op in net.op:
                if op.type in {"If", "While"} and not op.is_gradient_op:
                    found.setdefault(op.SerializeToString(deterministic=True), (ref.id, net, op))
    return {name: (net, op) for name, net, op in found.values()}


def test_the_corpus_holds_what_is_to_be_compared() -> None:
    assert len(recorded()) == 7


@pytest.mark.parametrize("name", sorted(recorded()))
def test_as_caffe2s_helper_builds_them(name: str) -> None:
    """Compare bodies and scope; Caffe2 keeps blobs in sets, so their order apart."""
    recorded_net, control = recorded()[name]
    scope = [*recorded_net.external_input, *(blob for op in recorded_net.op for blob in op.output)]
    nets = {arg.name: net_of(do_of(control, arg.name), f"child_{arg.name}") for arg in control.arg}
    net = Net(workspace_of(control))
    net.add_external_input(*map(Blob, dict.fromkeys(recorded_net.external_input)))
    if control.type == "If":
        add_if_op(net, Blob(control.input[0]), nets["then_net"], nets.get("else_net"), scope)
    else:
        add_while_op(net, Blob(control.input[0]), nets["loop_net"], nets.get("cond_net"), scope)
    assert comparable(net.proto.op[-1]) == comparable(control)


def workspace_of(control: OperatorDef) -> str:
    return next(blob for blob in control.output if "/workspace_" in blob).rsplit("/workspace_", 1)[0]


def net_of(do: OperatorDef, name: str) -> Net:
    body = OpView(do, 0).args.net("net")
    assert body is not None
    net = Net(body.name or name)
    net.extend(body.op)
    return net


def comparable(op: OperatorDef) -> object:
    bodies = {}
    for arg in op.arg:
        do = do_of(op, arg.name)
        args = OpView(do, 0).args
        outer = [*do.input[:-1], *do.output[:-1]]
        bound = zip(args.texts("inner_blobs"), args.integers("outer_blobs_idx"), strict=True)
        body = args.net("net")
        assert body is not None
        bodies[arg.name] = (
            frozenset(do.input),
            frozenset(do.output),
            frozenset((inner, outer[index]) for inner, index in bound),
            [step.SerializeToString() for step in body.op],
            args.optional_integer("copy_external_blobs"),
        )
    return op.type, op.input[0], frozenset(op.input), frozenset(op.output), bodies
