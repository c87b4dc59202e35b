"""Nets without device options on a GPU: what runs there, what stays on the host as a whole, the copies of the plan."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from conformance.compare import mismatches
from conformance.corpus import find_cases, read_case
from support.nets import net, op
from support.paths import MODELS

from caffe2_backend import Predictor, Workspace
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.partition import make_plan
from caffe2_backend.runtime.placement.automatic import with_objects
from caffe2_backend.runtime.placement.report import HostOperator, Placement
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

GPU = SessionOptions(stand_in={"cuda:0": "cpu"}, threads=1)
X = np.array([3, -1, 3, 2], np.int32)
NO_KERNEL = "Unique has no CUDA kernel"
# n[1] Unique has no CUDA kernel
MIXED = net(op("Negative", "x", "a"), op("Unique", "a", "u"), op("Negative", "u", "y"), op("Negative", "a", "z"),
            inputs="x", outputs="y z")  # fmt: skip


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The devices of the sessions that are made."""
    made: list[str] = []
    make = Session.__init__

    def init(self: Session, model: bytes | str, device: str = "cpu", **options: object) -> None:
        made.append(device)
        make(self, model, device, **options)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(Session, "__init__", init)
    return made


def test_a_net_with_kernels_runs_on_the_gpu_as_a_whole(devices: list[str]) -> None:
    predictor = Predictor(Model(net(op("Negative", "x", "a"), op("Negative", "a", "y"))), "cuda:0", options=GPU)
    assert predictor.placement is None

    np.testing.assert_array_equal(predictor.run({"x": X})["y"], X)

    assert devices == ["cuda:0"]
    assert predictor.placement == Placement("cuda:0", 2)


def test_an_operator_without_a_kernel_stays_on_the_host(devices: list[str]) -> None:
    predictor = Predictor(Model(MIXED), "cuda:0", options=GPU)

    found = predictor.run({"x": X})

    np.testing.assert_array_equal(found["y"], -np.unique(-X))
    np.testing.assert_array_equal(found["z"], X)
    assert devices == ["cuda:0", "cpu", "cuda:0"]
    assert predictor.placement == Placement(
        "cuda:0", 4, (HostOperator("n[1] Unique", NO_KERNEL),), (("a", "cpu"), ("u", "cuda:0"))
    )
    assert predictor.placement.describe() == (
        "3 of 4 operators run on cuda:0\n"
        f"n[1] Unique stays on the host: {NO_KERNEL}\n"
        "a is copied to cpu\n"
        "u is copied to cuda:0"
    )


def test_a_second_run_converts_nothing() -> None:
    own = Workspace("cuda:0", options=GPU)
    own.feed("x", X)
    own.create_net(MIXED)
    own.run_net("n")
    before = own.conversions()

    own.run_net("n")

    assert own.conversions() == before
    assert [placement.on_host[0].reason for placement in own.placements("n")] == [NO_KERNEL]


def test_each_kind_of_inputs_is_placed_anew() -> None:
    """Gather has CUDA kernels for numbers, and none for texts."""
    predictor = Predictor(Model(net(op("Gather", "x i", "y"), inputs="x i")), "cuda:0", options=GPU)
    indices = np.array([2, 0])

    np.testing.assert_array_equal(predictor.run({"x": X, "i": indices})["y"], [3, 3])
    assert predictor.placement == Placement("cuda:0", 1)

    texts = np.array(["a", "b", "c"], object)
    assert predictor.run({"x": texts, "i": indices})["y"].tolist() == ["c", "a"]
    assert predictor.placement is not None
    assert [operator.reason for operator in predictor.placement.on_host] == [
        "Gather has no CUDA kernel for int64, string"
    ]
    np.testing.assert_array_equal(predictor.run({"x": X, "i": indices})["y"], [3, 3])


def test_a_loop_stays_on_the_host_as_a_whole() -> None:
    body = net(op("Negative", "x", "a"), op("Unique", "a", "y"), inputs="x", outputs="y")
    other = net(op("Copy", "x", "y"), inputs="x", outputs="y")
    branch = net(op("Negative", "x", "v"), op("If", "c", "y", then_net=body, else_net=other), op("Negative", "y", "w"),
                 inputs="c x", outputs="w v")  # fmt: skip
    predictor = Predictor(Model(branch), "cuda:0", options=GPU)

    found = predictor.run({"c": np.array(1, np.bool_), "x": X})

    np.testing.assert_array_equal(found["w"], -np.unique(-X))
    assert predictor.placement is not None
    assert predictor.placement.on_host == (HostOperator("n[1] If", NO_KERNEL),)
    assert predictor.placement.transfers == (("y", "cuda:0"),)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("name", ["gru", "lstm", "attention_recurrent", "control_while_if", "gru_linear_before_reset"])
def test_golden_models_compute_the_same(name: str, *, graphs: bool) -> None:
    options = dataclasses.replace(GPU, cuda_graphs=graphs)
    for ref in find_cases(MODELS / name):
        case = read_case(ref)
        predictor = Predictor(Model.of(case.net, case.init_net), "cuda:0", options=options)
        found = predictor.run(case.inputs)
        shared = {blob: value for blob, value in case.outputs.items() if blob in found}
        assert mismatches(shared, {blob: found[blob] for blob in shared}) == []
        assert predictor.placement is not None
        assert predictor.placement.on_host == ()


def test_blobs_that_nobody_asked_for_are_computed_later() -> None:
    own = Workspace("cuda:0", options=GPU)
    own.feed("x", X)
    own.create_net(net(op("Negative", "x", "a"), op("Unique", "a", "u"), op("Negative", "a", "y"), outputs="y"))
    own.run_net("n")

    for _ in range(2):
        np.testing.assert_array_equal(own.fetch("u"), np.unique(-X))
        np.testing.assert_array_equal(own.fetch("a"), -X)
        own.run_net("n")
    np.testing.assert_array_equal(own.fetch("y"), X)


def test_states_are_updated_across_devices() -> None:
    own = Workspace("cuda:0", options=GPU)
    own.feed("x", X)
    own.feed("sum", np.zeros(3, np.int32))
    own.create_net(net(op("Unique", "x", "u"), op("Add", "sum u", "sum"), inputs="x sum"))

    for step in (1, 2, 3):
        own.run_net("n")
        np.testing.assert_array_equal(own.fetch("sum"), step * np.unique(X))


def test_operators_that_share_an_object_stay_together() -> None:
    shared = NetDef(op=[
        OperatorDef(type="CreateCounter", output=["counter"]),
        OperatorDef(type="CountUp", input=["counter"], output=["before"]),
        OperatorDef(type="Relu", input=["x"], output=["y"]),
    ])  # fmt: skip

    assert with_objects(shared, {1: "no kernel"}) == {
        1: "no kernel",
        0: "it shares 'counter' with an operator on the host",
    }
    assert with_objects(shared, {2: "no kernel"}) == {2: "no kernel"}


def test_the_plan_copies_what_crosses_devices_once() -> None:
    predict = net(op("Relu", "x", "a"), op("Relu", "a", "b"), op("Relu", "a", "c"), op("Sum", "b c", "y"), inputs="x")

    plan = make_plan(predict, devices=["cuda:0", "cpu", "cpu", "cuda:0"])

    assert [(step.source, step.target, step.device) for step in plan.transfers] == [
        ("a", "a", "cpu"), ("b", "b", "cuda:0"), ("c", "c", "cuda:0"),
    ]  # fmt: skip
    assert [run.device for run in plan.runs] == ["cuda:0", "cpu", "cuda:0"]
