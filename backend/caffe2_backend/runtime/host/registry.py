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
    strings,
    text_reader,
)
from caffe2_backend.runtime.host.family import HostFunction
from caffe2_bridge.control import Role, control_class, control_of
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.registry import merge
from caffe2_bridge.schemas import operator_schema
from caffe2_frontend import supported_operators

HOST_OPERATORS: Final[Mapping[str, HostFunction]] = merge((
    blob_names.family,
    failing.family,
    iteration.family,
    printing.family,
    python_operators.family,
    strings.family,
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
    if op.type == "Summarize" and op.output:  # only its text needs the host
        return any(argument.name == "to_file" and argument.i for argument in op.arg) and not op.domain
    return op.type in HOST_OPERATORS and not op.domain


def require_known_operators(net: NetDef, *, without_outputs: bool = False) -> None:
    """Raise RunError for the first operator of a type that neither real Caffe2 nor this runtime has.

    ``without_outputs``: only for one without outputs, which a conversion does not look at.
    """
    for index, op in enumerate(net.op):
        if op.domain or (without_outputs and op.output) or operator_schema(op.type) is not None:
            continue
        if op.type not in HOST_OPERATORS and op.type not in _converted():
            error = RunError(f"{Location(net.name or 'net', index, op.type, op.name)}: no operator has this type")
            error.operator = index
            raise error


def _converted() -> frozenset[str]:
    return frozenset(op_type for types in supported_operators().values() for op_type in types)


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
