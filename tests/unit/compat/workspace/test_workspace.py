from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat import workspace

pytestmark = pytest.mark.usefixtures("empty_workspace")


NET = NetDef(name="n", op=[operator("Relu", ["x"], ["y"])], external_input=["x"], external_output=["y"])


def test_feed_run_fetch() -> None:
    assert workspace.FeedBlob("x", np.array([-1, 1], np.float32))
    assert workspace.CreateNet(NET)
    assert workspace.RunNet("n")
    assert workspace.RunNet(NET, 2)
    assert workspace.FetchBlob("y").tolist() == [0, 1]  # type: ignore[union-attr] # an array
    assert workspace.Blobs() == ["x", "y"]
    assert [blob.tolist() for blob in workspace.FetchBlobs(["x", "y"])] == [[-1, 1], [0, 1]]  # type: ignore[union-attr] # arrays
    assert workspace.HasBlob("y")
    assert workspace.ResetBlob("y")
    assert workspace.HasBlob("y")  # without a value, as in Caffe2
    assert workspace.Nets() == ["n"]


def test_operators() -> None:
    workspace.FeedBlob("x", np.array([-1, 1], np.float32))
    assert workspace.RunOperatorOnce(operator("Negative", ["x"], ["x"]))
    assert workspace.RunOperatorsOnce([operator("Negative", ["x"], ["y"]), operator("Relu", ["y"], ["z"])])
    assert workspace.RunOperatorMultiple(operator("Negative", ["x"], ["x"]), 3)
    assert workspace.FetchBlob("z").tolist() == [0, 1]  # type: ignore[union-attr] # an array
    assert workspace.FetchBlob("x").tolist() == [-1, 1]  # type: ignore[union-attr] # an array
    assert {"Relu", "RecurrentNetwork"} <= set(workspace.RegisteredOperators())


def test_several_workspaces() -> None:
    workspace.FeedBlob("x", 1.0)
    workspace.SwitchWorkspace("other", create_if_missing=True)
    assert workspace.CurrentWorkspace() == "other"
    assert not workspace.HasBlob("x")
    with workspace.WorkspaceGuard("default"):
        assert workspace.HasBlob("x")
    assert workspace.CurrentWorkspace() == "other"
    assert {"default", "other"} <= set(workspace.Workspaces())
    with pytest.raises(RunError, match="workspace 'third' does not exist"):
        workspace.SwitchWorkspace("third")


def test_int8() -> None:
    fill = operator("Int8GivenTensorFill", [], ["q"], shape=[2], values=b"\x00\x10", Y_scale=0.5, Y_zero_point=8)
    workspace.RunOperatorOnce(fill)
    blob = workspace.FetchInt8Blob("q")
    assert (blob.data.tolist(), blob.scale, blob.zero_point) == ([0, 16], 0.5, 8)
    assert workspace.FetchInt8BlobRealVal("q").tolist() == [-4, 4]
    with pytest.raises(TypeError, match="FetchInt8Blob"):
        workspace.FetchBlob("q")
    workspace.FeedBlob("f", 1.0)
    with pytest.raises(RunError, match="not an Int8 tensor"):
        workspace.FetchInt8Blob("f")


def test_failures_that_are_allowed() -> None:
    workspace.CreateNet(NET)
    assert not workspace.RunNet("n", allow_fail=True)
    with pytest.raises(RunError):
        workspace.RunNet("n")


def test_predictor_of_two_nets() -> None:
    init = NetDef(name="init", op=[operator("GivenTensorFill", [], ["w"], shape=[2], values=[2.0, 3.0])])
    net = NetDef(name="p", op=[operator("Mul", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["y"])
    predictor = workspace.Predictor(init.SerializeToString(), net.SerializeToString())
    x = np.ones(2, np.float32)
    assert predictor.run([x])[0].tolist() == [2, 3]
    assert predictor.run({"x": x})[0].tolist() == [2, 3]


def test_cuda_devices_are_counted() -> None:
    assert workspace.NumCudaDevices() >= 0
