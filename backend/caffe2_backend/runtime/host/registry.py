"""The table of host operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from caffe2_backend.runtime.host import (
    blob_names,
    datasets,
    failing,
    images,
    iteration,
    objects,
    printing,
    python_operators,
    storage,
    text_reader,
)
from caffe2_backend.runtime.host.family import HostFunction
from caffe2_bridge.control import Role, control_class, control_of
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.registry import merge

HOST_OPERATORS: Final[Mapping[str, HostFunction]] = merge((
    blob_names.family,
    failing.family,
    iteration.family,
    printing.family,
    python_operators.family,
    text_reader.family,
    *datasets.FAMILIES,
    *images.FAMILIES,
    *objects.FAMILIES,
    *storage.FAMILIES,
))  # fmt: skip


def is_host_operator(op: OperatorDef) -> bool:
    """Whether an operator runs on the host, between the stages of a net."""
    if op.type == "Iter" and op.input:  # only its old form keeps something
        return False
    return op.type in HOST_OPERATORS and not op.domain


def has_host_operators(net: NetDef) -> bool:
    """Whether a net, or a body that one of its operators runs, holds host operators."""
    return any(is_host_operator(op) or bodies_have_host_operators(op) for op in net.op)


def bodies_have_host_operators(op: OperatorDef) -> bool:
    """Whether a body that an operator runs holds host operators."""
    if control_class(op) is None:
        return False
    control = control_of(OpView(op, 0))
    try:
        bodies = () if control is None else tuple(control.bodies.values())
    except ArgumentError:  # the conversion reports it
        return False
    return any(body.role is Role.RUN and has_host_operators(body.net) for body in bodies)
