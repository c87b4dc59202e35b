from __future__ import annotations

from caffe2_bridge.schemas import operator_schema
from caffe2_bridge.unsupported_types import unsupported_reasons


def test_each_type_has_one_reason_without_a_period() -> None:
    reasons = unsupported_reasons()
    assert reasons["CreateBlobsQueue"] == "it moves blobs through a queue, which is not a tensor"
    assert not [op_type for op_type, reason in reasons.items() if reason.endswith(".") or " " in op_type]
    assert operator_schema("CreateBlobsQueue") is not None
