from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime import DeviceTensor, SessionOptions, make_plan
from caffe2_backend.runtime.partition import DeviceRun
from caffe2_bridge import ConversionError, RunError
from caffe2_bridge.devices import Device, insert_copies, place
from caffe2_bridge.model import Model
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, NetDef, OperatorDef

# What is meant for GPUs runs on the host: plans are made and followed as with GPUs.
FORCED = SessionOptions(stand_in={"cuda:0": "cpu", "cuda:1": "cpu"}, threads=1)
X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


def on_gpu(op: OperatorDef, index: int = 0) -> OperatorDef:
    op.device_option.device_type = PROTO_CUDA
    op.device_option.device_id = index
    return op


def detector() -> NetDef:
    """Return a body on the GPU, a tail on the host, and a head on the GPU again."""
    ops = [
        on_gpu(operator("CopyCPUToGPU", ["x"], ["x_gpu"])),
        on_gpu(operator("Relu", ["x_gpu"], ["a"])),
        operator("Negative", ["x"], ["host"]),
        on_gpu(operator("Negative", ["a"], ["b"])),
        on_gpu(operator("CopyGPUToCPU", ["b"], ["b_cpu"])),
        operator("Add", ["b_cpu", "host"], ["c"]),
        on_gpu(operator("CopyCPUToGPU", ["c"], ["c_gpu"])),
        on_gpu(operator("Mul", ["c_gpu", "a"], ["y"])),
    ]
    return NetDef(name="detector", op=ops, external_input=["x"], external_output=["y", "host"])


def expected() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    a = np.maximum(X, 0)
    y: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = (-a - X) * a
    return y


def test_a_plan_shows_its_runs_and_copies() -> None:
    plan = make_plan(detector())
    assert [(run.device, run.indices) for run in plan.runs] == [("cuda:0", (1, 3)), ("cpu", (2, 5)), ("cuda:0", (7,))]
    assert [(t.source, t.target, t.device) for t in plan.transfers] == [
        ("x", "x_gpu", "cuda:0"), ("b", "b_cpu", "cpu"), ("c", "c_gpu", "cuda:0"),
    ]  # fmt: skip
    assert "copy b to cpu as b_cpu" in plan.describe()


def test_a_plan_is_followed() -> None:
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.create_net(detector())
    for _ in range(2):
        workspace.run_net("detector")
        np.testing.assert_array_equal(workspace.fetch("y"), expected())
    assert isinstance(workspace.fetch("y", on_device=True), DeviceTensor)
    assert isinstance(workspace.fetch("host", on_device=True), np.ndarray)
    assert isinstance(workspace.fetch("a", on_device=True), DeviceTensor)
    np.testing.assert_array_equal(workspace.fetch("a"), np.maximum(X, 0))
    assert workspace.conversions() == 3


def test_a_blob_inside_a_plan_can_be_fetched_late() -> None:
    net = detector()
    net.op.insert(4, on_gpu(operator("Sqr", ["a"], ["unused"])))
    net.op.insert(5, on_gpu(operator("Negative", ["unused"], ["unread"])))
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(net)
    np.testing.assert_array_equal(workspace.fetch("unread"), -np.square(np.maximum(X, 0)))


def test_a_predictor_follows_a_plan() -> None:
    predictor = Predictor(Model.of(detector()), options=FORCED)
    results = predictor.run({"x": X}, on_device=True)
    assert isinstance(results["y"], DeviceTensor)
    np.testing.assert_array_equal(results["y"].numpy(), expected())
    assert list(predictor.run({"x": X})) == ["y", "host"]


def test_a_device_takes_the_place_of_those_that_are_named() -> None:
    plan = make_plan(detector(), gpu="cuda:1")
    assert {run.device for run in plan.runs} == {"cpu", "cuda:1"}
    workspace = Workspace("cuda:1", options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(detector())
    fetched = workspace.fetch("y", on_device=True)
    assert isinstance(fetched, DeviceTensor)
    assert fetched.device == "cuda:1"


def test_a_net_without_options_runs_on_the_device_as_a_whole() -> None:
    workspace = Workspace("cuda:0", options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"]))
    assert isinstance(workspace.fetch("y", on_device=True), DeviceTensor)


def test_a_net_option_holds_for_operators_without_one() -> None:
    net = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"])
    net.device_option.device_type = PROTO_CUDA
    assert [run.device for run in make_plan(net).runs] == ["cuda:0"]


def test_all_reads_across_devices_are_found() -> None:
    ops = [
        on_gpu(operator("Relu", ["x"], ["a"])),
        operator("Negative", ["a"], ["b"]),
        on_gpu(operator("Add", ["a", "b"], ["c"])),
    ]
    with pytest.raises(ConversionError) as caught:
        make_plan(NetDef(name="n", op=ops, external_input=["x"]))
    assert [(f.code, f.location.index, f.hint) for f in caught.value.findings] == [
        ("device-mismatch", 1, "insert a CopyGPUToCPU before it"),
        ("device-mismatch", 2, "insert a CopyCPUToGPU before it"),
    ]


def test_operands_of_the_host_are_read_there() -> None:
    ops = [
        operator("Copy", ["shape"], ["host_shape"]),
        on_gpu(operator("Reshape", ["x", "host_shape"], ["y", "old"])),
        operator("Copy", ["old"], ["before"]),
    ]
    net = NetDef(name="n", op=ops, external_input=["x", "shape"], external_output=["y", "before"])
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.feed("shape", np.array([4], np.int64))
    workspace.run_net_once(net)
    assert np.asarray(workspace.fetch("y")).shape == (4,)
    assert np.asarray(workspace.fetch("before")).tolist() == [2, 2]


def test_copies_are_put_in_by_the_toolkit() -> None:
    ops = [
        on_gpu(operator("Relu", ["x"], ["a"])),
        operator("Negative", ["a"], ["b"]),
        on_gpu(operator("Add", ["a", "b"], ["c"])),
    ]
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["c"])
    complete, lies = insert_copies(net)
    assert lies["c"] == "cuda:0"
    plan = make_plan(complete)
    assert [run.device for run in plan.runs] == ["cuda:0", "cpu", "cuda:0"]
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(complete)
    np.testing.assert_array_equal(workspace.fetch("c"), np.zeros_like(X))


class Costs:
    """All is cheaper on the GPU, but for what it does not have."""

    def operator(self, op: OperatorDef, device: Device) -> float | None:
        if op.type == "BoxWithNMSLimit" and device.is_gpu:
            return None
        return 1.0 if device.is_gpu else 10.0

    def transfer(self, _blob: str) -> float:
        return 0.5


def test_a_net_without_options_is_placed_by_the_toolkit() -> None:
    ops = [operator("Relu", ["x"], ["a"]), operator("Negative", ["a"], ["b"])]
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["b"])
    placed = place(net, Costs(), inputs={"x": "cpu"}).net
    complete, _ = insert_copies(placed, {"x": "cpu"})
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(complete)
    assert isinstance(workspace.fetch("b", on_device=True), DeviceTensor)
    np.testing.assert_array_equal(workspace.fetch("b"), -np.maximum(X, 0))


def test_the_order_of_writes_is_kept() -> None:
    ops = [
        operator("Negative", ["x"], ["t"]),
        on_gpu(operator("CopyCPUToGPU", ["t"], ["g"])),
        operator("Sqr", ["x"], ["t"]),
        on_gpu(operator("Relu", ["g"], ["y"])),
    ]
    net = NetDef(name="n", op=ops, external_input=["x"], external_output=["y", "t"])
    workspace = Workspace(options=FORCED)
    workspace.feed("x", X)
    workspace.run_net_once(net)
    np.testing.assert_array_equal(workspace.fetch("y"), np.maximum(-X, 0))
    np.testing.assert_array_equal(workspace.fetch("t"), np.square(X))


def fewest_by_force(net: NetDef, devices: Sequence[str]) -> int:
    """Return the number of runs of the best of all orders: operators are few."""
    reads = [set(op.input) for op in net.op]
    best = len(net.op)
    for order in itertools.permutations(range(len(net.op))):
        made: set[str] = {"x"}
        runs, last = 0, ""
        for i in order:
            if not reads[i] <= made:
                break
            made.update(net.op[i].output)
            if net.op[i].type.startswith("Copy"):
                continue
            runs += devices[i] != last
            last = devices[i]
        else:
            best = min(best, runs)
    return best


def random_net(seed: int) -> tuple[NetDef, list[str]]:
    random = np.random.default_rng(seed)
    made = {"cpu": ["x"], "cuda:0": []}
    ops: list[OperatorDef] = []
    devices: list[str] = []
    while len(ops) < 7:
        device = str(random.choice(["cpu", "cuda:0"]))
        other = "cuda:0" if device == "cpu" else "cpu"
        target = f"b{len(ops)}"
        if made[device] and random.random() < 0.7:
            op = operator("Negative", [str(random.choice(made[device]))], [target])
        elif made[other]:
            kind = "CopyGPUToCPU" if device == "cpu" else "CopyCPUToGPU"
            op = operator(kind, [str(random.choice(made[other]))], [target])
        else:
            continue
        if device != "cpu" or op.type == "CopyGPUToCPU":
            on_gpu(op)
        ops.append(op)
        devices.append(device)
        made[device].append(target)
    return NetDef(name="r", op=ops, external_input=["x"]), devices


@pytest.mark.parametrize("seed", range(12))
def test_no_order_has_fewer_runs(seed: int) -> None:
    net, devices = random_net(seed)
    plan = make_plan(net)
    assert len(plan.runs) == fewest_by_force(net, devices)
    done = [i for step in plan.steps for i in (step.indices if isinstance(step, DeviceRun) else (step.index,))]
    assert sorted(done) == list(range(len(net.op)))


def test_a_stand_in_must_be_a_device() -> None:
    with pytest.raises(RunError, match="neither 'cpu' nor"):
        Workspace("cuda:0", options=SessionOptions(stand_in={"cuda:0": "abacus"}))
