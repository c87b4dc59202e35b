"""Shapes of outputs of host operators: what real Caffe2 1.9.1 inferred."""

from __future__ import annotations

from typing import Any

import pytest
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, TensorProto
from caffe2_compat import workspace


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (operator("RetrieveCount", ["object"], ["n"]), {"n": ([], TensorProto.INT64)}),
        (operator("IndexGet", ["object", "x"], ["n"]), {"n": ([], TensorProto.INT64)}),
        (
            operator("LastNWindowCollector", ["ring", "next", "x"], ["ring", "next"], num_to_collect=7),
            {"ring": ([7, 2], TensorProto.FLOAT), "next": ([], TensorProto.INT32)},
        ),
        # Caffe2 skips the operator, and what is known of its outputs stays.
        (
            operator("LastNWindowCollector", ["ring", "next", "x"], ["ring", "next"]),
            {"next": ([], TensorProto.INT32)},
        ),
        (operator("CountUp", ["object"], ["n"]), {}),
    ],
)
def test_outputs_of_host_operators(op: Any, expected: dict[str, Any]) -> None:
    net = NetDef(name="net", op=[op])
    types = {"next": TensorProto.INT32}
    shapes, found = workspace.InferShapesAndTypes([net], {"x": [3, 2], "next": []}, blob_types=types)
    outputs = {name: (shapes[name], found[name]) for name in op.output if name in shapes}
    assert outputs == expected
