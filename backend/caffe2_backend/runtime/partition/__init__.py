"""Partitions: nets cut into runs on one device each, and the copies between them."""

from caffe2_backend.runtime.partition.plan import TRANSFERS, DevicePlan, DeviceRun, Transfer, make_plan

__all__ = ["TRANSFERS", "DevicePlan", "DeviceRun", "Transfer", "make_plan"]
