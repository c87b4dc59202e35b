"""Init nets whose weights are read when the net runs."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace, to_netdef
from caffe2_backend.runtime.calls import blob_workspace
from caffe2_bridge import NetFormatError, RunError
from caffe2_bridge.init import init_net as init_nets
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


def init_net() -> NetDef:
    ops = [
        operator("GivenTensorFill", [], ["w"], shape=[2, 2], values=X.ravel().tolist()),
        operator("ConstantFill", ["w"], ["c"], value=3.0, input_as_shape=0),
        operator("UniformFill", [], ["r"], shape=[4]),
        operator("Int8GivenTensorFill", [], ["q"], shape=[2], values=b"ab", Y_scale=0.5, Y_zero_point=1),
        operator("GivenTensorStringFill", [], ["s"], shape=[1], values=["a"]),
    ]
    net = NetDef(name="init", op=ops)
    net.device_option.random_seed = 7
    return net


def test_a_stored_init_net_runs_like_the_net() -> None:
    whole, stored = Workspace(), Workspace()
    whole.run_net_once(init_net())
    stored.run_net_once(read_init_net(init_net().SerializeToString()))
    assert stored.blobs() == whole.blobs()
    for name in whole.blobs():
        np.testing.assert_equal(stored.fetch(name), whole.fetch(name))
    assert stored.host_array("w").flags.writeable


def test_a_stored_init_net_with_other_operators_runs_as_a_net() -> None:
    net = init_net()
    net.op.append(operator("Negative", ["w"], ["n"]))
    workspace = Workspace()
    workspace.run_net_once(read_init_net(net.SerializeToString()))
    np.testing.assert_array_equal(workspace.fetch("n"), -X)


def test_faults_of_a_stored_init_net_name_the_operator() -> None:
    net = NetDef(name="init", op=[operator("GivenTensorFill", [], ["w"], shape=[3], values=[1.0])])
    with pytest.raises(RunError, match="GivenTensorFill"):
        Workspace().run_net_once(read_init_net(net.SerializeToString()))


def test_an_init_net_that_no_message_holds_runs_parameter_by_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    net = init_net()
    net.op.append(operator("Negative", ["w"], ["n"]))
    whole, parts = Workspace(seed=3), Workspace(seed=3)
    whole.run_net_once(net)
    monkeypatch.setattr(blob_workspace, "MESSAGE_LIMIT", 10)
    monkeypatch.setattr(init_nets, "MESSAGE_LIMIT", 10)
    stored = read_init_net(net.SerializeToString())
    parts.run_net_once(stored)
    assert parts.blobs() == whole.blobs()
    for name in set(whole.blobs()) - {"r"}:  # which is drawn
        np.testing.assert_equal(parts.fetch(name), whole.fetch(name))
    with pytest.raises(
        NetFormatError, match=r"the init net has \d+ bytes, and protobuf holds at most 10 .*model.params"
    ):
        _ = stored.net


def test_an_imported_model_that_no_message_holds_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    net = NetDef(name="n", op=[operator("Add", ["x", "w"], ["y"])], external_input=["x", "w"], external_output=["y"])
    fill = operator("GivenTensorFill", [], ["w"], shape=[2, 2], values=X.ravel().tolist())
    imported = to_netdef(to_onnx(net, NetDef(op=[fill]), inputs={"x": ("float32", (2, 2))}))
    monkeypatch.setattr(blob_workspace, "MESSAGE_LIMIT", 10)
    monkeypatch.setattr(init_nets, "MESSAGE_LIMIT", 10)
    workspace = Workspace()
    workspace.run_net_once(imported.init)
    workspace.feed("x", X)
    workspace.run_net_once(imported.predict_net)
    np.testing.assert_array_equal(workspace.fetch("y"), X + X)
