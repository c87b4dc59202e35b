"""While and ONNXWhile: a net, run again and again."""

from __future__ import annotations

import torch

from caffe2_bridge.control import While
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op

family = Family("loop")


@family.converts("While")
def loop(op: Op) -> None:
    control = op.control
    assert isinstance(control, While)
    assert control.condition is not None
    while True:
        if "cond_net" in op.bodies:
            op.bodies["cond_net"].run(op.blobs, op.context)
        condition = op.blobs[control.condition]
        if not isinstance(condition, torch.Tensor) or not bool(condition.reshape(-1)[0]):
            return
        op.bodies["loop_net"].run(op.blobs, op.context)
