"""Init nets whose weights are read when the net runs."""

from __future__ import annotations

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge import RunError
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef

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
