"""Plans are read as models; those that do what a net cannot are refused with the step that does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conformance.oracle import OracleRun, find_oracle, run_oracle
from google.protobuf import text_format

import caffe2_bridge as c2
from caffe2_bridge.files import load_plan
from caffe2_bridge.files.plan_files import joined, read_plan
from caffe2_bridge.proto.caffe2_pb2 import Argument, DeviceOption, ExecutionStep, NetDef, OperatorDef, PlanDef


def net(name: str, op: str, source: str, target: str) -> NetDef:
    return NetDef(
        name=name, op=[OperatorDef(type=op, input=[source], output=[target])], external_input=[source],
        external_output=[target],
    )  # fmt: skip


def fills(name: str, **values: float) -> NetDef:
    arguments = {key: [Argument(name="shape", ints=[1]), Argument(name="value", f=v)] for key, v in values.items()}
    return NetDef(name=name, op=[OperatorDef(type="ConstantFill", output=[key], arg=a) for key, a in arguments.items()])


def plan_of(*nets: NetDef, **step: object) -> PlanDef:
    step.setdefault("network", [net.name for net in nets])
    return PlanDef(name="plan", network=nets, execution_step=[ExecutionStep(name="all", **step)])  # type: ignore[arg-type] # any field


INIT = fills("init", w=2)
FIRST = NetDef(
    name="first", op=[OperatorDef(type="Mul", input=["x", "w"], output=["h"])], external_input=["x", "w"],
    external_output=["h"],
)  # fmt: skip
LAST = net("last", "Tanh", "h", "y")


@pytest.mark.parametrize("text", [False, True])
def test_nets_one_after_another_are_a_model(tmp_path: Path, *, text: bool) -> None:
    plan = plan_of(INIT, FIRST, LAST)
    path = tmp_path / "plan"
    path.write_bytes(text_format.MessageToString(plan).encode() if text else plan.SerializeToString())
    model = c2.load(path)
    assert (model.inputs, model.outputs, model.source) == (("x",), ("y",), str(path))
    assert [op.type for op in model.predict_net.op] == ["Mul", "Tanh"]
    assert model.params["w"].tolist() == [2]
    assert load_plan(path) == plan


def test_the_order_is_that_of_the_steps() -> None:
    other = net("other", "Exp", "y", "z")
    inner = ExecutionStep(substep=[ExecutionStep(network=["first"]), ExecutionStep(network=["last"])])
    never = ExecutionStep(network=["other"], num_iter=0)
    plan = PlanDef(
        network=[other, LAST, FIRST], execution_step=[inner, never, ExecutionStep(network=["other", "other"])]
    )
    predict = read_plan(plan).predict
    assert [op.type for op in predict.op] == ["Mul", "Tanh", "Exp", "Exp"]
    assert list(predict.external_input) == ["x", "w"]
    assert list(predict.external_output) == ["z"]


def test_a_plan_that_fills_and_computes_in_one_net_has_no_init_net() -> None:
    mixed = NetDef(name="mixed", op=[*INIT.op, *FIRST.op])
    planned = read_plan(plan_of(mixed, LAST))
    assert planned.init is None
    assert [op.type for op in planned.predict.op] == ["ConstantFill", "Mul", "Tanh"]
    only = read_plan(plan_of(INIT))  # there must be something to run
    assert (only.init, only.predict) == (None, INIT)


def test_joined_nets_keep_their_devices_and_results() -> None:
    first = NetDef()
    first.CopyFrom(FIRST)
    first.device_option.CopyFrom(DeviceOption(device_type=1, device_id=2))
    first.external_output.append("x")
    first.op.add(type="Exp", input=["h"], output=["e"]).device_option.device_type = 0
    before = first.SerializeToString()
    net = joined([first, LAST])
    assert [(op.type, op.device_option.device_type, op.device_option.device_id) for op in net.op] == [
        ("Mul", 1, 2), ("Exp", 0, 0), ("Tanh", 0, 0),
    ]  # fmt: skip
    assert list(net.external_output) == ["x", "y"]  # h is read on the way
    assert first.SerializeToString() == before


def test_loops_become_while_operators(tmp_path: Path) -> None:
    start = fills("start", w=2, x=1)
    again = NetDef(name="again", op=[OperatorDef(type="Mul", input=["x", "w"], output=["x"])], external_output=["x"])
    steps = [ExecutionStep(network=["start"]), ExecutionStep(name="loop", network=["again"], num_iter=5)]
    path = tmp_path / "plan"
    path.write_bytes(PlanDef(network=[start, again], execution_step=steps).SerializeToString())
    model = c2.load(path)
    assert {name: array.tolist() for name, array in model.params.items()} == {"w": [2], "x": [1]}
    assert (model.inputs, model.outputs) == ((), ("x",))
    assert [op.type for op in model.predict_net.op].count("While") == 1


def test_what_stops_a_loop_stays_with_it() -> None:
    step = ExecutionStep(name="loop", network=["first"], should_stop_blob="stop")
    start = fills("start", stop=1)
    planned = read_plan(PlanDef(network=[start, FIRST], execution_step=[ExecutionStep(network=["start"]), step]))
    assert planned.init is None
    assert [op.type for op in planned.predict.op] == ["ConstantFill", "ConstantFill", "While"]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (plan_of(FIRST, report_net="first"), "all.*: the step runs the net 'first' periodically"),
        (plan_of(FIRST, run_every_ms=5), "the step runs every 5 ms"),
        (plan_of(FIRST, num_concurrent_instances=2), "the step runs in 2 concurrent copies"),
        (plan_of(FIRST, create_workspace=True), "the step runs in a workspace of its own"),
        (
            plan_of(FIRST, network=[], concurrent_substeps=True, substep=[ExecutionStep(network=["first"])] * 2),
            "the step runs its substeps concurrently",
        ),
        (plan_of(FIRST, substep=[ExecutionStep(network=["first"])]), "the step has both nets and substeps"),
        (plan_of(FIRST, network=["other"]), "net 'other', which the plan lacks"),
        (plan_of(FIRST, network=[]), "its steps do not run any net"),
        (PlanDef(network=[INIT, FIRST]), "its steps do not run any net"),
        (plan_of(FIRST, FIRST), "several of its nets are named 'first'"),
    ],
)
def test_plans_that_do_what_a_net_cannot_are_refused(tmp_path: Path, plan: PlanDef, reason: str) -> None:
    path = tmp_path / "plan"
    path.write_bytes(plan.SerializeToString())
    with pytest.raises(c2.NetFormatError, match=reason) as caught:
        c2.load(path)
    assert caught.value.source == str(path)
    assert "'first'" in str(caught.value)
    assert load_plan(path) == plan


def test_an_init_net_beside_a_plan(tmp_path: Path) -> None:
    (tmp_path / "predict_net.pb").write_bytes(plan_of(FIRST, LAST).SerializeToString())
    (tmp_path / "init_net.pb").write_bytes(INIT.SerializeToString())
    assert c2.load(tmp_path).params["w"].tolist() == [2]
    (tmp_path / "full").write_bytes(plan_of(INIT, FIRST, LAST).SerializeToString())
    with pytest.raises(c2.NetFormatError, match="the plan's net 'init' writes its parameters: omit the init net"):
        c2.load(tmp_path / "full", tmp_path / "init_net.pb")


def test_what_is_no_plan(tmp_path: Path) -> None:
    (tmp_path / "net").write_bytes(FIRST.SerializeToString())
    with pytest.raises(c2.NetFormatError, match="the file must be a plan, but this is a NetDef"):
        load_plan(tmp_path / "net")
    with pytest.raises(c2.NetFormatError, match="only predictor databases have named predictors"):
        c2.load(tmp_path / "net", predictor="a")


RUN_PLAN = """
import sys
import numpy as np
from caffe2.proto import caffe2_pb2
from caffe2.python import workspace
plan = caffe2_pb2.PlanDef.FromString(open(sys.argv[1], "rb").read())
workspace.FeedBlob("x", np.array([0.25], np.float32))
assert workspace.RunPlan(plan)
np.save(sys.argv[2], workspace.FetchBlob("y"))
"""


@pytest.mark.oracle
@pytest.mark.parametrize("again", [0, 3])
def test_real_caffe2_computes_the_same_with_the_plan_and_with_what_is_read_of_it(tmp_path: Path, again: int) -> None:
    twice = OperatorDef(type="Scale", input=["y"], output=["y"], arg=[Argument(name="scale", f=2)])
    doubled = NetDef(name="double", op=[twice])
    steps = [
        ExecutionStep(name="a", network=["init", "first"], num_iter=1),
        ExecutionStep(name="b", substep=[ExecutionStep(name="c", network=["last", "double", "double"])]),
        ExecutionStep(name="d", network=["double"], num_iter=again),
    ]
    plan = PlanDef(name="plan", network=[INIT, FIRST, LAST, doubled], execution_step=steps)
    (tmp_path / "plan").write_bytes(plan.SerializeToString())
    command = [str(find_oracle()), "-c", RUN_PLAN, str(tmp_path / "plan"), str(tmp_path / "y.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own script
    assert done.returncode == 0, done.stderr[-2000:]
    model = c2.load(tmp_path / "plan")
    run = OracleRun(model.predict_net, {"x": np.array([0.25], np.float32)}, model.init_net, ["y"])
    np.testing.assert_array_equal(run_oracle([run])[0].outputs["y"], np.load(tmp_path / "y.npy"))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), 4 * 2**again * np.tanh(0.5), rtol=1e-6)
