"""Devices by name, and device options."""

from __future__ import annotations

import pytest

from caffe2_backend.runtime.devices.device_names import device_index, device_kind, device_name, with_net_device
from caffe2_bridge import RunError
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


@pytest.mark.parametrize(
    ("given", "name", "index", "kind"),
    [("cpu", "cpu", 0, "cpu"), ("cuda", "cuda:0", 0, "cuda"), ("cuda:2", "cuda:2", 2, "cuda"),
     ("webgpu", "webgpu", 0, "webgpu")],
)  # fmt: skip
def test_devices_by_name(given: str, name: str, index: int, kind: str) -> None:
    assert (device_name(given), device_index(name), device_kind(name)) == (name, index, kind)


@pytest.mark.parametrize("name", ["webgpu:1", "cuda:x", "gpu", ""])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(RunError, match="is neither 'cpu' nor 'cuda:N' nor 'webgpu'"):
        device_name(name)
