"""What operators ask of blobs that validation makes up."""

from __future__ import annotations

from conformance.recording import operator

from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation.inputs.weights import Demand, Demands


def test_many_readers_at_each_step_are_searched_once() -> None:
    ops = [operator("Relu", [f"b{step}"], [f"b{step + 1}"]) for step in range(12) for _ in range(30)]  # 30^12 ways
    demands = Demands(NetView(NetDef(name="n", op=ops)).ops, {}.get)
    assert demands.of("b0", last=True) == Demand()
    assert not demands.is_state("b0")


def test_a_demand_passes_operators_that_keep_the_channels() -> None:
    ops = [
        operator("Relu", ["x"], ["y"]),
        operator("LSTMUnit", ["h", "c", "gates", "lengths", "t"], ["h_next", "c_next"]),
        operator("FC", ["y", "w", "b"], ["out"]),
    ]
    demands = Demands(NetView(NetDef(name="n", op=ops)).ops, {"w": (7, 6), "b": (7,)}.get)
    assert demands.of("x", last=True).channels == 6
    assert demands.is_state("h")
    assert not demands.is_state("lengths")
