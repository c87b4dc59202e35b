"""Iter without an input: what real Caffe2 1.9.1 returned."""

from __future__ import annotations

import numpy as np
from conformance.recording import operator

from caffe2_backend import Workspace
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def test_it_counts_in_its_output() -> None:
    workspace = Workspace()
    net = NetDef(name="net", op=[operator("Iter", [], ["i"]), operator("ConstantFill", [], ["c"], shape=[1])])
    workspace.create_net(net)
    for expected in (1, 2, 3):
        workspace.run_net("net")
        assert np.asarray(workspace.fetch("i")).tolist() == [expected]
    workspace.run_net_once(net)
    assert np.asarray(workspace.fetch("i")).tolist() == [4]
