"""Calls of the module ``workspace`` return, and raise, what those of real Caffe2 do."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.oracle import find_oracle
from conformance.recording import operator
from support.workspace.transcripts import Call, compare

from caffe2_bridge.proto.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef, TensorProto
from caffe2_compat import workspace

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3), np.array([-1, 7], np.int32), np.array([True, False]),
    np.array([1, 200], np.uint8), np.array([-1, 2], np.int8), np.array([1, 60000], np.uint16),
    np.array([-1, 2], np.int16), np.array([1.5, -2], np.float16), np.array([[1.5]]), np.zeros((0, 3), np.float32),
    np.array(3, np.float32), np.zeros(0, np.int64), np.array([b"a", b"bc", b""], object),
]  # fmt: skip


def fill(name: str, value: float = 0.0, dtype: int = TensorProto.FLOAT) -> OperatorDef:
    return operator("ConstantFill", [], [name], shape=[1], value=value, dtype=dtype)


def net(name: str, *ops: OperatorDef) -> NetDef:
    return NetDef(name=name, op=ops)


INIT = net(
    "init", fill("c"), fill("r"), fill("one", 1.0), fill("limit", 4.5), fill("stop", 0, TensorProto.BOOL),
    operator("CreateCounter", [], ["counter"]), operator("CreateCounter", [], ["left"], init_count=3),
)  # fmt: skip
INCREMENT = net("inc", operator("Add", ["c", "one"], ["c"]))
CHECK = net("check", operator("GT", ["c", "limit"], ["stop"]))
REPORT = net("report", operator("Add", ["r", "one"], ["r"]))
LOCAL = net("local", operator("Add", ["c", "one"], ["own"]), operator("Add", ["own", "one"], ["c"]))
UNTIL = net("until", operator("Add", ["c", "one"], ["c"]), operator("GT", ["c", "limit"], ["unwritten"]))
FAILING = net("failing", operator("Relu", ["absent"], ["y"]))
COUNT = net("count", operator("CountUp", ["counter"], ["n"]), operator("RetrieveCount", ["counter"], ["c"]))
UNTIL_TRUE = net("until_true", operator("CountDown", ["left"], ["stop"]))
COUNTED = net("counted", operator("CreateCounter", [], ["mine"]), operator("CountUp", ["counter"], ["n"]))
FAILING_REPORT = net("failing_report", operator("Fail", [], []))
NETS = [INCREMENT, CHECK, REPORT, LOCAL, UNTIL, COUNT, UNTIL_TRUE, COUNTED, FAILING_REPORT]


def step(*parts: str | ExecutionStep, **fields: Any) -> ExecutionStep:
    made = ExecutionStep(name="step", **fields)
    for part in parts:
        if isinstance(part, str):
            made.network.append(part)
        else:
            made.substep.append(part)
    return made


PLANS = {
    "one net": step("inc"),
    "num_iter": step("inc", "inc", num_iter=3),
    "no iterations": step("inc", num_iter=0),
    "negative": step("inc", num_iter=-2),
    "nested": step(step("inc", num_iter=3), step("inc", "report"), num_iter=2),
    "stop after the net": step("inc", "check", should_stop_blob="stop"),
    "stop before the net": step("check", "inc", should_stop_blob="stop"),
    "stop in substeps": step(step("inc"), step("check"), step("report"), should_stop_blob="stop"),
    "stop blob is missing": step("until", should_stop_blob="unwritten"),
    "stop within iterations": step(step("inc", "check", should_stop_blob="stop"), num_iter=2),
    "stop blob is a float": step("inc", should_stop_blob="c"),
    "report": step("inc", num_iter=5, report_net="report", report_interval=1),
    "concurrent": step(step("inc"), step("report"), concurrent_substeps=True, num_iter=3),
    "instances of nets": step("inc", num_concurrent_instances=3),
    "instances of substeps": step(step("inc"), num_concurrent_instances=3),
    "concurrent instances": step(step("count"), step("report"), concurrent_substeps=True, num_concurrent_instances=3),
    "concurrent in concurrent": step(
        step(step("count"), step("count"), concurrent_substeps=True, num_iter=2),
        step("count"),
        concurrent_substeps=True,
        num_iter=2,
    ),
    "concurrent steps that stop": step(
        step("count"), step("until_true"), concurrent_substeps=True, should_stop_blob="stop"
    ),
    "only once": step("inc", only_once=True, should_stop_blob="stop"),
    "reports that fail": step("inc", report_net="failing_report", report_interval=1),
    "own workspaces of instances": step(step("counted", num_iter=2, create_workspace=True), num_concurrent_instances=3),
    "own workspace": step(step("local"), create_workspace=True),
    "own workspace of nets": step("local", create_workspace=True),
    "every second": step("inc", num_iter=3, run_every_ms=100),
    "criteria": step("inc", criteria_network="report"),
}
REFUSED = {
    "stop and num_iter": step("inc", should_stop_blob="stop", num_iter=2),
    "only once": step(step("inc", only_once=True), num_iter=2),
    "report net is missing": step("inc", report_net="other", report_interval=1),
    "net is missing": step("other"),
    "nets and substeps": step("inc", step("inc")),
}


def run_plan(*steps: ExecutionStep, nets: list[NetDef] = NETS) -> list[Call]:
    plan = PlanDef(name="plan", network=nets, execution_step=steps)
    fetched = [("FetchBlob", "c"), ("FetchBlob", "r"), ("HasBlob", "own"), ("RunNet", "inc"), ("FetchBlob", "c")]
    count = [("RunOperatorOnce", operator("RetrieveCount", ["counter"], ["n"])), ("FetchBlob", "n")]
    return [("RunNetOnce", INIT), ("RunPlan", plan), *fetched, *count]


SERIALIZED = [
    call
    for array in ARRAYS
    for call in (("FeedBlob", "v", array), ("SerializeBlob", "v"), ("FetchBlob", "v"), ("GetBlobSizeBytes", "v"))
]
INT8 = operator("Int8GivenTensorFill", [], ["q"], shape=[2], values=b"\x00\x10", Y_scale=0.5, Y_zero_point=8)
BIAS = operator("Int8GivenIntTensorFill", [], ["b"], shape=[2], values=[-3, 70000], Y_scale=0.5, Y_zero_point=0)
BLOBS: list[Call] = [
    ("Blobs",), ("RootFolder",), ("CreateBlob", "e"), ("HasBlob", "e"), ("Blobs",), ("FetchBlob", "e"),
    ("SerializeBlob", "e"), ("GetBlobSizeBytes", "e"), ("FetchBlob", "absent"),
    ("SerializeBlob", "absent"), ("GetBlobSizeBytes", "absent"),
    ("ResetBlob", "absent"), ("HasBlob", "absent"), ("blobs[]", "absent"), ("blobs[]=", "k", ARRAYS[0]),
    ("blobs[]", "k"), ("blobs", "k"), ("CreateBlob", "k"), ("FetchBlob", "k"), ("FeedBlob", "t", b"text"),
    ("FetchBlob", "t"), ("SerializeBlob", "t"), ("DeserializeBlob", "u", b"junk"), ("SwitchWorkspace", "absent"),
    ("RunNet", "absent"), ("RunOperatorOnce", INT8), ("FetchInt8Blob", "q"), ("FetchBlob", "q"), ("SerializeBlob", "q"),
    ("GetBlobSizeBytes", "q"), ("FetchInt8BlobRealVal", "q"), ("RunOperatorOnce", BIAS), ("SerializeBlob", "b"),
]  # fmt: skip
IMMEDIATE: list[Call] = [
    ("IsImmediate",), ("StartImmediate", True), ("IsImmediate",), ("FeedImmediate", "x", ARRAYS[0]),
    ("RunOperatorImmediate", operator("Relu", ["x"], ["y"])), ("ImmediateBlobs",), ("FetchImmediate", "y"), ("Blobs",),
    ("StopImmediate",), ("ImmediateBlobs",), ("CurrentWorkspace",),
]  # fmt: skip
NAMES: list[Call] = [
    ("GetNetName", "n"), ("StringifyProto", 3), ("StringifyBlobName", 3), ("StringifyNetName", 3),
    ("StringifyBlobName", "b"), ("NumCudaDevices",), ("NumGpuDevices",), ("GetCUDAVersion",), ("GetCuDNNVersion",),
    ("IsNUMAEnabled",), ("GetNumNUMANodes",), ("RunPlan", 3),
]  # fmt: skip

X = np.ones((2, 5), np.float32)
WEIGHTS = net(
    "w",
    operator("GivenTensorFill", [], ["w"], shape=[3, 5], values=[1.0] * 15),
    operator("GivenTensorFill", [], ["b"], shape=[3], values=[1.0] * 3),
    fill("x"),
)
FC = NetDef(
    name="fc", op=[operator("FC", ["x", "w", "b"], ["y"])], external_input=["x", "w", "b"], external_output=["y"]
)


def predictor(*runs: Any) -> list[Call]:
    return [("Predictor", WEIGHTS, FC), *(("Predictor.run", inputs) for inputs in runs)]


PREDICTORS: list[Call] = [
    *predictor([X], {"x": X}, [], {}, [X, 2 * X[:1].repeat(3, 0)], [X]),
    *predictor([X, X, X, X], {"z": X}, [X]),
    *predictor([X[0]], [X[:, :4]], [X.astype(np.float64)], [3], {"x": 3}, {"y": X}),
    *predictor([]),
    *predictor({}),
    *predictor({"w": np.zeros((3, 5), np.float32), "x": X}, {"x": X}),
    ("Predictor", b"\xff", b"\xff"),
]

INFERRED = net(
    "inferred",
    operator("FC", ["x", "w", "b"], ["y"]),
    operator("Softmax", ["y"], ["s"]),
    operator("Unique", ["u"], ["v"]),
    operator("Relu", ["v"], ["vr"]),
    operator("Relu", ["absent"], ["ar"]),
    operator("Cast", ["s"], ["c"], to=TensorProto.INT64),
    operator("Conv", ["i", "k"], ["o"], kernel=3, pad=1, stride=2),
    operator("MaxPool", ["o"], ["p"], kernel=2, stride=2),
)


@pytest.mark.oracle
def test_plans(tmp_path: Path) -> None:
    compare([run_plan(plan) for plan in PLANS.values()], tmp_path)
    # What a plan that Caffe2 refuses leaves behind depends on where it notices.
    compare([run_plan(plan)[:4] for plan in REFUSED.values()], tmp_path)


@pytest.mark.oracle
def test_plans_that_fail(tmp_path: Path) -> None:
    failing = run_plan(step(step("inc"), step("failing")), nets=[INCREMENT, FAILING])[:2]
    twice = run_plan(step("inc"), nets=[INCREMENT, INCREMENT])
    compare([failing, twice, [("RunPlan", b"junk")], run_plan()], tmp_path)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "calls", [SERIALIZED, BLOBS, IMMEDIATE, NAMES], ids=["serialize", "blobs", "immediate", "names"]
)
def test_calls(calls: list[Call], tmp_path: Path) -> None:
    compare([calls], tmp_path)


@pytest.mark.oracle
def test_predictors(tmp_path: Path) -> None:
    compare([PREDICTORS], tmp_path)


@pytest.mark.oracle
def test_inferred_shapes(tmp_path: Path) -> None:
    given = {"x": [4, 5], "w": [3, 5], "b": [3], "u": [7], "i": [1, 3, 9, 8], "k": [4, 3, 3, 3]}
    compare([[("InferShapesAndTypes", [INFERRED], given, True)]], tmp_path)
    compare(
        [[("FeedBlob", "x", X), ("InferShapesAndTypes", [net("n", operator("Relu", ["x"], ["y"]))], None, True)]],
        tmp_path,
    )


# Names of the module that need no counterpart: its imports, and what only its own code reads.
INTERNAL = {
    "C", "GetNameScope", "Message", "Process", "TriggerLazyImport", "absolute_import", "basestring", "caffe2_pb2",
    "collections", "contextlib", "defaultdict", "division", "logger", "logging", "np", "os", "print_function", "scope",
    "shutil", "socket", "tempfile", "unicode_literals", "utils",
}  # fmt: skip


@pytest.mark.oracle
def test_every_name_is_there_or_left_out_with_a_reason() -> None:
    program = "from caffe2.python import workspace; print(*(n for n in dir(workspace) if not n.startswith('_')))"
    command = [str(find_oracle()), "-c", program]
    listed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout  # noqa: S603 - the python that the user names
    for name in sorted(set(listed.split()) - INTERNAL):
        if not hasattr(workspace, name):
            with pytest.raises(AttributeError, match=f"'{name}': "):
                getattr(workspace, name)
