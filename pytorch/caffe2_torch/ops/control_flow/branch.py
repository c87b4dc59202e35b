"""If: one of two nets, in the workspace of the operator."""

from __future__ import annotations

from caffe2_bridge.control import If
from caffe2_torch.evaluation.context import is_exporting
from caffe2_torch.evaluation.exporting import export_branch, truth
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op

family = Family("branch")


@family.converts("If", "AsyncIf")
def branch(op: Op) -> None:
    assert isinstance(op.control, If)
    if is_exporting():
        either = (op.bodies.get(op.control.taken(condition=value)) for value in (True, False))
        export_branch(op, truth(op.tensor(0)), *either)
        return
    taken = op.control.taken(condition=bool(op.tensor(0).reshape(-1)[0]))
    if taken in op.bodies:
        op.bodies[taken].run(op.blobs, op.context)
