"""Counts of the operators of a net."""

from __future__ import annotations

from collections import Counter

from caffe2_bridge.control.bodies import inner_operators
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def count_operators(net: NetDef) -> tuple[Counter[str], Counter[str]]:
    """Return the operators of a net by type, and those of the bodies that they run, at any depth."""
    ops = NetView(net).ops
    return Counter(op.type for op in ops), Counter(inner.type for op in ops for inner in inner_operators(op))
