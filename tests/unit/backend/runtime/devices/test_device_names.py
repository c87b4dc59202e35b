"""Devices by name, and device options."""

from __future__ import annotations

from caffe2_backend.runtime.devices.device_names import with_net_device
from caffe2_bridge.proto.caffe2_pb2 import PROTO_CUDA, DeviceOption, NetDef, OperatorDef

GPU = DeviceOption(device_type=PROTO_CUDA, device_id=1)
OP = OperatorDef(type="Relu")


def test_an_operator_without_a_device_gets_that_of_its_net() -> None:
    assert with_net_device(OP, NetDef(device_option=GPU)) == OperatorDef(type="Relu", device_option=GPU)
    assert not OP.HasField("device_option")


def test_an_operator_keeps_its_own_device() -> None:
    own = OperatorDef(type="Relu", device_option=DeviceOption(device_id=3))
    assert with_net_device(own, NetDef(device_option=GPU)) is own
    assert with_net_device(OP, NetDef()) is OP
