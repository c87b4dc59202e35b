"""A recurrent net whose step draws random numbers."""

from __future__ import annotations

from caffe2_bridge.builder import Net, recurrent_net
from caffe2_bridge.gradients import add_gradient_operators
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def with_dropout(recomputed: list[str] | None = None) -> NetDef:
    """Return ``h' = h + dropout(x)``, with the sum of the last h as the loss, and its gradients."""
    net = Net("net")
    sequence, start = net.add_external_input("x", "start")
    step = net.child("step")
    row, _, before = step.add_external_input("x_t", "timestep", "h_prev")
    step.op("Dropout", [row], ["kept", "mask"], ratio=0.5, is_test=0)
    after = step.Add([before, "kept"], "h")
    step.add_external_output(after)
    recurrent_net(
        net, step, [(row, sequence)], [(before, start)], {before: after}, timestep="timestep", outputs_with_grads=[1],
        recompute_blobs_on_backward=recomputed,
    )  # fmt: skip
    net.op("SumElements", ["h_last"], ["loss"])
    return add_gradient_operators(net.proto, ["loss"]).net
