"""Plans as nets: what each does was asked of real Caffe2's plan executor, and is run here through ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import ConversionError
from caffe2_bridge.plans import plan_net
from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef
from caffe2_frontend import to_onnx


def operator(op_type: str, inputs: Sequence[str], outputs: Sequence[str], **args: int) -> OperatorDef:
    op = OperatorDef(type=op_type, input=inputs, output=outputs)
    for name, value in args.items():
        op.arg.add(name=name, i=value)
    return op


def number(name: str, value: float) -> OperatorDef:
    op = OperatorDef(type="ConstantFill", output=[name])
    op.arg.add(name="shape", ints=[1])
    op.arg.add(name="value", f=value)
    return op


NETS = [
    NetDef(name="init", op=[number("acc", 0), number("one", 1), number("limit", 5), number("log", 0)]),
    NetDef(name="inc", op=[operator("Add", ["acc", "one"], ["acc"])]),
    NetDef(name="stop", op=[operator("GE", ["acc", "limit"], ["stop"])]),
    NetDef(name="mark", op=[operator("Add", ["log", "one"], ["log"])]),
    NetDef(name="counter", op=[operator("CreateCounter", [], ["counter"], init_count=3)]),
    NetDef(name="down", op=[operator("CountDown", ["counter"], ["done"])]),
]


def step(nets: Sequence[str] = (), steps: Sequence[ExecutionStep] = (), **fields: object) -> ExecutionStep:
    return ExecutionStep(name="s", network=nets, substep=steps, **fields)


def plan(*steps: ExecutionStep) -> PlanDef:
    return PlanDef(name="p", network=NETS, execution_step=[step(["init"]), *steps])


UNTIL = {"should_stop_blob": "stop"}
# The plan; acc and log after it in real Caffe2.
CASES = {
    "skipped": (plan(step(["inc"], num_iter=0)), 0, 0),
    "repeated": (plan(step(["inc"], num_iter=4)), 4, 0),
    "until": (plan(step(["inc", "stop", "mark"], **UNTIL)), 5, 4),
    "until, computed before": (plan(step(["stop"]), step(["inc", "stop", "mark"], **UNTIL)), 5, 4),
    "until, of steps": (plan(step(steps=[step(["inc"]), step(["stop"]), step(["mark"])], **UNTIL)), 5, 4),
    "loop in a loop": (plan(step(steps=[step(["inc"], num_iter=2), step(["mark"])], num_iter=3)), 6, 3),
    "until, in a loop": (plan(step(steps=[step(["inc", "stop"], **UNTIL), step(["mark"])], num_iter=2)), 6, 2),
    "a net in two steps": (plan(step(["inc"]), step(["inc"], num_iter=2)), 3, 0),
    "an empty step": (plan(step()), 0, 0),
    "counted": (plan(step(["counter"]), step(steps=[step(["down"]), step(["inc"])], should_stop_blob="done")), 3, 0),
    "counted by nets": (plan(step(["counter"]), step(["down", "inc"], should_stop_blob="done")), 3, 0),
    "criteria are nothing": (plan(step(["inc"], criteria_network="stop")), 1, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_does_what_caffe2_did(name: str) -> None:
    source, acc, log = CASES[name]
    model = to_onnx(source, outputs=["acc", "log"])
    results = Session(model.SerializeToString()).run({})
    np.testing.assert_array_equal(results["acc"], [acc])
    np.testing.assert_array_equal(results["log"], [log])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (step(["inc"], num_iter=3, should_stop_blob="stop"), "exclude each other"),
        (step(["inc"], only_once=True), "only_once"),
        (step(steps=[step(["inc"]), step(["mark"])], concurrent_substeps=True), "concurrently"),
        (step(["inc"], num_concurrent_instances=2), "2 concurrent copies"),
        (step(["inc"], create_workspace=True), "workspace of its own"),
        (step(["inc"], report_net="mark"), "'mark'"),
        (step(["nothing"]), "net 'nothing', which the plan lacks"),
    ],
)
def test_what_no_net_can_do_is_refused_with_its_place(bad: ExecutionStep, reason: str) -> None:
    with pytest.raises(ConversionError, match=reason) as caught:
        plan_net(plan(step(steps=[bad])))
    (finding,) = caught.value.findings
    assert str(finding.location).startswith("p > s > s")


def test_all_bad_steps_are_found_at_once() -> None:
    with pytest.raises(ConversionError) as caught:
        plan_net(plan(step(["nothing"]), step(["inc"], only_once=True)))
    assert len(caught.value.findings) == 2
