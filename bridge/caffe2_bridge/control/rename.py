"""New names for the blobs that an operator with bodies finds and leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from caffe2_bridge.control.description import BodyScope, ControlOperator
from caffe2_bridge.control.table import body_arguments, control_of
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


def rename_control(proto: OperatorDef, found: Mapping[str, str], left: Mapping[str, str]) -> None:
    """Rename blobs in the operands, arguments and bodies of an operator with bodies, in place.

    Args:
        proto: the operator.
        found: new names, by old ones, of values that the operator finds in its workspace.
        left: new names of values that it leaves there. Where a body that shares the workspace may read the value that
            was there before, the two must be the same.
    """
    op = OpView(proto, 0)
    control = control_of(op)
    inputs = [found.get(name, name) for name in op.inputs]
    outputs = [left.get(name, name) for name in op.outputs]
    if control is not None:
        inside = names_inside(control, found, left)
        control.rename_arguments(lambda name: found.get(name, name), lambda name: left.get(name, name))
        if inside:
            edit_bodies(proto, lambda net: rename_net(net, inside))
    proto.input[:] = inputs
    proto.output[:] = outputs


def names_inside(control: ControlOperator, found: Mapping[str, str], left: Mapping[str, str]) -> dict[str, str]:
    """Return the new names of outer blobs that bodies use under their outer names."""
    if control.scope is BodyScope.SEALED:
        return {}
    if control.scope is BodyScope.SHARED:
        return {**found, **left}
    own = control.own_names
    filled = {name: left[name] for name in control.fills if name in left}
    return {name: new for name, new in {**found, **filled}.items() if name not in own}


def rename_net(net: NetDef, names: Mapping[str, str]) -> None:
    """Rename blobs of a net, bodies that see them included, in place."""
    for field in (net.external_input, net.external_output):
        field[:] = [names.get(name, name) for name in field]
    for proto in net.op:
        rename_control(proto, names, names)


def edit_bodies(proto: OperatorDef, edit: Callable[[NetDef], None]) -> None:
    """Change all bodies of an operator in place, also those that are written as text."""
    control = control_of(OpView(proto, 0))
    if control is None:
        return
    for arg in body_arguments(proto):
        if arg.name in control.bodies:
            edit(control.bodies[arg.name].net)
            control.store(arg.name)
