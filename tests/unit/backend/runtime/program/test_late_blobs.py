"""Blobs that a run does not return, fetched after it: their values, and whether the net is converted again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

X = np.array([[-1.0, 2.0, -3.0], [0.5, -0.25, 4.0]], np.float32)
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4) / 7
FEEDS = {
    "x": X,
    "image": IMAGE,
    "w": np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1) - 1,
    "scale": np.array([2, 3], np.float32),
    "bias": np.array([-1, 1], np.float32),
    "mean": np.array([0.5, 0.25], np.float32),
    "var": np.array([1, 2], np.float32),
    "c": np.ones((), bool),
}

WEIGHTS = ("w", "scale", "bias", "mean", "var")

NETS: dict[str, tuple[list[OperatorDef], int]] = {
    "a blob that is written three times": (
        [
            operator("Relu", ["x"], ["h"]),
            operator("Scale", ["h"], ["h"], scale=3.0),
            operator("Softmax", ["h"], ["p"]),
            operator("Negative", ["h"], ["h"]),
            operator("Add", ["h", "p"], ["y"]),
        ],
        1,
    ),
    "a blob of the name that an older version of another has": (
        [
            operator("Relu", ["x"], ["h"]),
            operator("Negative", ["h"], ["h_1"]),
            operator("Scale", ["h"], ["h"], scale=3.0),
            operator("Add", ["h", "h_1"], ["y"]),
        ],
        1,
    ),
    "a convolution whose normalization is folded into it": (
        [
            operator("Conv", ["image", "w"], ["conv"], kernel=1),
            operator("SpatialBN", ["conv", "scale", "bias", "mean", "var"], ["normal"], is_test=1),
            operator("Relu", ["normal"], ["y"]),
        ],
        2,
    ),
    "a copy": ([operator("Copy", ["x"], ["copy"]), operator("Relu", ["copy"], ["y"])], 2),
    "equal operators": (
        [operator("Relu", ["x"], ["a"]), operator("Relu", ["x"], ["b"]), operator("Add", ["a", "b"], ["y"])],
        2,
    ),
    "an operator that no output needs": ([operator("Relu", ["x"], ["y"]), operator("Negative", ["y"], ["z"])], 2),
    "a blob that a branch overwrites": (
        [
            operator("Relu", ["x"], ["h"]),
            operator(
                "If",
                ["c", "h"],
                ["h"],
                then_net=NetDef(op=[operator("Negative", ["h"], ["h"])], external_input=["h"], external_output=["h"]),
            ),
            operator("Add", ["h", "x"], ["y"]),
        ],
        2,
    ),
}


def workspace_of(ops: list[OperatorDef]) -> tuple[Workspace, list[str]]:
    workspace = Workspace()
    weights = {name: FEEDS[name] for name in WEIGHTS}
    fills = [
        operator("GivenTensorFill", [], [name], shape=list(array.shape), values=array.ravel().tolist())
        for name, array in weights.items()
    ]
    workspace.run_net_once(NetDef(name="init", op=fills))
    for name, value in FEEDS.items():
        if name not in WEIGHTS:
            workspace.feed(name, value)
    net = NetDef(name="net", op=ops, external_output=["y"])
    workspace.create_net(net)
    return workspace, list(dict.fromkeys(name for op in ops for name in op.output))


def expected(ops: list[OperatorDef]) -> dict[str, Any]:
    workspace, _ = workspace_of(ops)
    return workspace.run_net("net", every_blob=True).blobs


@pytest.mark.parametrize("name", NETS)
def test_a_late_blob_is_what_its_last_operator_wrote(name: str) -> None:
    ops, conversions = NETS[name]
    workspace, names = workspace_of(ops)
    values = expected(ops)
    workspace.run_net("net")
    for blob in names:
        np.testing.assert_allclose(workspace.fetch(blob), values[blob], rtol=1e-5, atol=1e-6, err_msg=blob)  # type: ignore[arg-type]  # arrays
    assert workspace.conversions() == conversions
    workspace.feed("x", -2 * X)
    workspace.run_net("net")
    for blob in names:
        workspace.fetch(blob)
    assert workspace.conversions() == conversions


def test_a_late_blob_of_a_net_with_other_names() -> None:
    """Nets of one structure share a conversion, which has the names of the first."""
    for names in (["h", "i", "y"], ["i", "h", "y"], ["h_1", "relu", "y"]):
        a, b, y = names
        ops = [
            operator("Relu", ["x"], [a]),
            operator("Scale", [a], [a], scale=3.0),
            operator("Negative", [a], [b]),
            operator("Add", [a, b], [y]),
        ]
        workspace, _ = workspace_of(ops)
        workspace.run_net("net")
        np.testing.assert_array_equal(workspace.fetch(b), -3 * np.maximum(X, 0))  # type: ignore[arg-type]  # arrays
        np.testing.assert_array_equal(workspace.fetch(a), 3 * np.maximum(X, 0))  # type: ignore[arg-type]  # arrays
        assert workspace.conversions() == 1


def test_a_dropout_that_drops_nothing_leaves_its_mask() -> None:
    workspace = Workspace()
    workspace.feed("x", np.ones(4, np.float32))
    for name, is_test in (("train", 0), ("test", 1)):
        drop = operator("Dropout", ["x"], ["y", "mask"], ratio=0.0, is_test=is_test)
        workspace.run_net_once(NetDef(name=name, op=[drop], external_output=["y", "mask"]))
        np.testing.assert_array_equal(workspace.fetch("mask"), np.ones(4, np.bool_))  # type: ignore[arg-type] # an array
    workspace.remove_blob("mask")
    workspace.run_net_once(NetDef(name="test", op=[drop]))
    assert not workspace.has_blob("mask")
