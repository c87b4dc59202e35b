"""Indices and maps as messages: the bytes that real Caffe2 1.9.1 wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conformance.recording import operator

from caffe2_bridge.diagnostics import NetFormatError
from caffe2_bridge.proto.caffe2_pb2 import BlobProto, TensorProto
from caffe2_compat import workspace

MAP_OF_TWO = (
    b"\n\x12\x08\x02\x10\nB\x02\x08\x00R\x02\x03\x01Z\x04\x08\x00\x10\x02"
    b'\n\x12\x08\x02\x10\x02"\x02\x1e\nB\x02\x08\x00Z\x04\x08\x00\x10\x02'
)


@pytest.fixture(autouse=True)
def _own_workspace() -> Any:
    with workspace.WorkspaceGuard("key codecs"):
        workspace.ResetWorkspace()
        yield
        workspace.ResetWorkspace()


@pytest.mark.parametrize(
    ("op_type", "keys", "field"),
    [
        ("IntIndexCreate", np.array([5, 7], np.int32), TensorProto(int32_data=[5, 7], data_type=TensorProto.INT32)),
        ("LongIndexCreate", np.array([5, 7]), TensorProto(int64_data=[5, 7], data_type=TensorProto.INT64)),
        (
            "StringIndexCreate",
            np.array(["x", "yy"]),
            TensorProto(string_data=[b"x", b"yy"], data_type=TensorProto.STRING),
        ),
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_an_index(op_type: str, keys: Any, field: TensorProto, *, frozen: bool) -> None:
    workspace.FeedBlob("keys", keys)
    workspace.RunOperatorOnce(operator(op_type, [], ["i"], max_elements=10))
    workspace.RunOperatorOnce(operator("IndexGet", ["i", "keys"], ["n"]))
    if frozen:
        workspace.RunOperatorOnce(operator("IndexFreeze", ["i"], ["i"]))
    content = workspace.SerializeBlob("i")
    tensor = TensorProto(dims=[2], segment=TensorProto.Segment(begin=0, end=2))
    tensor.device_detail.device_type = 0
    tensor.MergeFrom(field)
    assert (
        content
        == BlobProto(
            name="i", type="std::unique_ptr<caffe2::IndexBase>", tensor=tensor, content=b"10 %d" % frozen
        ).SerializeToString()
    )
    workspace.DeserializeBlob("j", content)
    assert workspace.SerializeBlob("j") == content.replace(b"\x01i", b"\x01j", 1)


def test_a_map() -> None:
    workspace.FeedBlob("k", np.array([3, 1]))
    workspace.FeedBlob("v", np.array([30, 10], np.int32))
    workspace.RunOperatorOnce(operator("KeyValueToMap", ["k", "v"], ["m"]))
    content = workspace.SerializeBlob("m")
    assert (
        content
        == BlobProto(name="m", type="(std::unordered_map<int64_t, int32_t>)", content=MAP_OF_TWO).SerializeToString()
    )
    workspace.DeserializeBlob("d", content)
    workspace.RunOperatorOnce(operator("MapToKeyValue", ["d"], ["keys", "values"]))
    keys, values = (np.asarray(workspace.FetchBlob(name)) for name in ("keys", "values"))
    assert (keys.tolist(), values.tolist(), values.dtype) == ([3, 1], [30, 10], np.int32)


@pytest.mark.parametrize(
    "proto",
    [
        BlobProto(type="std::unique_ptr<caffe2::IndexBase>", tensor=TensorProto(dims=[0], data_type=10), content=b"x"),
        BlobProto(type="std::unique_ptr<caffe2::IndexBase>", tensor=TensorProto(dims=[0]), content=b"3 0"),
        BlobProto(type="(std::unordered_map<int64_t, int32_t>)", content=b"\xff"),
        BlobProto(type="(std::unordered_map<int64_t, int32_t>)", content=MAP_OF_TWO[:20]),
        BlobProto(type="(std::unordered_map<int32_t, int32_t>)", content=MAP_OF_TWO),
    ],
)
def test_damaged_messages(proto: BlobProto) -> None:
    with pytest.raises(NetFormatError):
        workspace.DeserializeBlob("x", proto.SerializeToString())
