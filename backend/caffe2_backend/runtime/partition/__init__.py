"""Partitions: nets cut into runs on one device each, and the copies between them."""

from caffe2_backend.runtime.partition.plan import TRANSFERS, DeviceRun, Plan, Transfer, make_plan

__all__ = ["TRANSFERS", "DeviceRun", "Plan", "Transfer", "make_plan"]
