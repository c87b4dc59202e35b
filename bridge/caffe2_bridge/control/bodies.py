"""The nets that an operator runs, and the operators in them."""

from __future__ import annotations

from collections.abc import Iterator

from caffe2_bridge.control.description import Role
from caffe2_bridge.control.table import control_of
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef


def nets_run_by(op: OpView) -> list[tuple[str, NetDef]]:
    """Return the nets that an operator runs, by argument, in the order of the arguments.

    Of a gradient operator those of its forward operator; of an operator that is not one of Caffe2's operators with
    bodies every net in an argument; none where an argument cannot be read.
    """
    if not op.proto.arg:
        return []
    control = control_of(op)
    if control is None:
        return [(arg.name, arg.n) for arg in op.proto.arg if arg.HasField("n")]
    try:
        bodies = control.bodies
    except ArgumentError:  # analyses report it
        return []
    roles = {body.role for body in bodies.values()}
    role = Role.PAST if Role.PAST in roles else Role.RUN
    names = dict.fromkeys(arg.name for arg in op.proto.arg)
    return [(name, bodies[name].net) for name in names if name in bodies and bodies[name].role is role]


def all_operators(net: NetView) -> Iterator[OpView]:
    """Yield the operators of a net, each followed by those of the nets that it runs, at any depth."""
    for op in net.ops:
        yield op
        yield from inner_operators(op)


def inner_operators(op: OpView) -> Iterator[OpView]:
    """Yield the operators of the nets that an operator runs, at any depth."""
    for _, body in nets_run_by(op):
        yield from all_operators(NetView(body))
