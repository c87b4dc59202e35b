"""Devices of blobs and operators: inference, assignment, copies, placement. Arguments stay unchanged."""

from caffe2_bridge.devices.copies.fuse import fuse_copies
from caffe2_bridge.devices.copies.insert import insert_copies
from caffe2_bridge.devices.cuda import cuda_operators, has_cuda_version
from caffe2_bridge.devices.device import HOST, Device, as_device
from caffe2_bridge.devices.follow import follow_inputs
from caffe2_bridge.devices.infer import assign_device_option, infer_device_type, infer_output_devices
from caffe2_bridge.devices.operand_sides import Side, operand_sides
from caffe2_bridge.devices.placement.assignment import CostModel
from caffe2_bridge.devices.placement.place import Placement, place
from caffe2_bridge.devices.placement.profile import BlobProfile, OperatorProfile, Profile, ProfiledCosts
from caffe2_bridge.devices.status import propagate_status

__all__ = [
    "HOST",
    "BlobProfile",
    "CostModel",
    "Device",
    "OperatorProfile",
    "Placement",
    "Profile",
    "ProfiledCosts",
    "Side",
    "as_device",
    "assign_device_option",
    "cuda_operators",
    "follow_inputs",
    "fuse_copies",
    "has_cuda_version",
    "infer_device_type",
    "infer_output_devices",
    "insert_copies",
    "operand_sides",
    "place",
    "propagate_status",
]
