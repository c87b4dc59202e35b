"""Large blobs stay inputs of converted nets, where operators read them alike."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_backend.runtime.program import large_inputs
from caffe2_backend.runtime.program.large_inputs import LargeInputs
from caffe2_bridge.proto.caffe2_pb2 import NetDef

OPS = [
    operator("Gather", ["table", "rows"], ["x"]),
    operator("FC", ["x", "w", "b"], ["y"]),
    operator("Relu", ["other"], ["z"]),
]
VALUES = {"table": (9, 4), "w": (3, 4), "b": (3,), "other": (3, 4)}


def test_blobs_that_lookups_and_products_read_are_large_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_inputs, "LARGE", 48)
    large = LargeInputs(NetDef(op=OPS))
    values = {name: np.ones(shape, np.float32) for name, shape in VALUES.items()}
    assert [name for name, value in values.items() if large.includes(name, value)] == ["table", "w"]


def test_nets_with_bodies_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_inputs, "LARGE", 48)
    body = NetDef(op=[operator("Relu", ["w"], ["v"])])
    large = LargeInputs(NetDef(op=[*OPS, operator("If", ["c"], [], then_net=body)]))
    assert not large.includes("w", np.ones((3, 4), np.float32))


def test_runs_compute_the_same_and_follow_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    values = {name: random.random(shape, np.float32) for name, shape in VALUES.items()}
    init = NetDef(name="init")
    for name, value in values.items():
        fill = operator("GivenTensorFill", [], [name], shape=list(value.shape), values=value.ravel().tolist())
        init.op.append(fill)
    results = []
    for limit in (48, 1 << 20):
        monkeypatch.setattr(large_inputs, "LARGE", limit)
        workspace = Workspace()
        workspace.run_net_once(init)
        workspace.feed("rows", np.array([1, 8], np.int32))
        net = workspace.create_net(NetDef(name="net", op=OPS, external_output=["y", "z"]))
        workspace.run_net(net)
        first = workspace.fetch("y")
        workspace.feed("w", -values["w"])
        workspace.run_net(net)
        results.append((first, workspace.fetch("y")))
        assert workspace.conversions() == (1 if limit == 48 else 2)
    np.testing.assert_array_equal(results[0], results[1])
    x = values["table"][[1, 8]]
    np.testing.assert_allclose(results[0][1], x @ -values["w"].T + values["b"], rtol=1e-6)
