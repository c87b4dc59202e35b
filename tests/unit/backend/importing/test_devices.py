from __future__ import annotations

import pytest
from onnx import parser

from caffe2_backend.convert import to_netdef
from caffe2_bridge import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA

MODEL = """<ir_version: 10, opset_import: ["": 21]>
g (float[N,3] x) => (float[N,3] y) <float[3] w = {1, 2, 3}> { t = Mul(x, w) y = Relu(t) }"""


def test_operators_and_parameters_are_where_they_were_asked_for() -> None:
    model = to_netdef(parser.parse_model(MODEL), device="cuda:1")
    assert [op.type for op in model.predict_net.op] == ["CopyCPUToGPU", "Mul", "Relu"]
    for op in (*model.predict_net.op, *model.init_net.op):
        assert (op.device_option.device_type, op.device_option.device_id) == (PROTO_CUDA, 1)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_on_the_host_nothing_is_said(device: str | None) -> None:
    model = to_netdef(parser.parse_model(MODEL), device=device)
    assert not any(op.HasField("device_option") for op in (*model.predict_net.op, *model.init_net.op))


def test_a_device_that_there_is_not() -> None:
    with pytest.raises(BridgeError):
        to_netdef(parser.parse_model(MODEL), device="abacus")
