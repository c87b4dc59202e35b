"""Iter without an input, and Accumulate: what real Caffe2 1.9.1 returned."""

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


def test_an_output_accumulates() -> None:
    workspace = Workspace()
    op = operator("Accumulate", ["x"], ["y"], gamma=0.5)
    workspace.feed("x", np.ones((2, 1), np.float32))
    for expected in (1, 1.5, 1.75):
        workspace.run_operator_once(op)
        assert np.asarray(workspace.fetch("y")).tolist() == [[expected]] * 2
    workspace.feed("x", np.ones(1, np.float32))
    workspace.run_operator_once(op)
    assert np.asarray(workspace.fetch("y")).tolist() == [1.875]
    workspace.feed("x", np.ones(3, np.float32))
    workspace.run_operator_once(op)  # Caffe2 would add what is in the memory behind the one element
    assert np.asarray(workspace.fetch("y")).tolist() == [1, 1, 1]
