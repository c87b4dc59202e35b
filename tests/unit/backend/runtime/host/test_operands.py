"""Host operators whose operands are not those that Caffe2's schema asks for, and arguments without bounds."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2_backend import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.gradients.operator_maker import make_operator


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "reason"),
    [
        ("StatRegistryExport", [], ["a", "b"], "the operator lists 2 outputs, but StatRegistryExport writes 3"),
        ("CloseBlobsQueue", [], [], "input 0 is missing: the operator lists 0, and CloseBlobsQueue reads 1"),
        ("Snapshot", [], ["a"], "Snapshot"),  # without a schema
    ],
)
def test_operands_that_are_missing(op_type: str, inputs: list[str], outputs: list[str], reason: str) -> None:
    op = make_operator(op_type, inputs, outputs, db="x", db_type="minidb")
    with pytest.raises(RunError, match=reason):
        Workspace().run_operator_once(op)


def test_a_queue_of_any_capacity() -> None:
    workspace = Workspace()
    workspace.run_operator_once(make_operator("CreateBlobsQueue", [], ["queue"], capacity=1 << 40))
    workspace.feed("x", np.float32([1, 2]))
    workspace.run_operator_once(make_operator("EnqueueBlobs", ["queue", "x"], ["x"]))
    workspace.run_operator_once(make_operator("DequeueBlobs", ["queue"], ["y"]))
    np.testing.assert_array_equal(workspace.fetch("y"), [1, 2])  # type: ignore[arg-type] # a tensor
