"""Do: a net in a workspace of its own, with bindings."""

from __future__ import annotations

from caffe2_bridge.control import Do
from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("do")


@family.converts("CreateScope")
def create_scope(_: Op) -> Value:
    return None


@family.converts("Do")
def run_scope(op: Op) -> None:
    """Bind the blobs of the workspace to blobs around it, which writes reach."""
    control = op.control
    assert isinstance(control, Do)
    op.args.ignore("copy_external_blobs", "is_gradient_op")
    if control.keeps_blobs:
        op.refuse("a Do that finds the blobs of an earlier run is not supported")
    bindings = control.bindings
    inside = {inner: op.blobs[outer] for inner, outer in bindings.items() if outer in op.blobs}
    (body,) = op.bodies.values()
    body.run(inside, op.context)
    op.blobs.update((outer, inside[inner]) for inner, outer in bindings.items() if inner in inside)
    op.blobs[control.stack] = None
