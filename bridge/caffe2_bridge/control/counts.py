"""Counts of the operators of a net."""

from __future__ import annotations

from collections import Counter

from caffe2_bridge.control.bodies import nets_run_by
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def count_operators(net: NetDef) -> tuple[Counter[str], Counter[str]]:
    """The operators of a net by type, and those of the bodies that they run, at any depth."""
    outer, inner = Counter[str](), Counter[str]()
    _count(net, outer, inner)
    return outer, inner


def _count(net: NetDef, outer: Counter[str], inner: Counter[str]) -> None:
    for op in NetView(net).ops:
        outer[op.type] += 1
        for _, body in nets_run_by(op):
            _count(body, inner, inner)
