"""Converters of control flow: branches, loops, and nets in workspaces of their own."""

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.ops.control_flow import branch, do, loop

FAMILIES: tuple[Family, ...] = (branch.family, do.family, loop.family)
