"""While: a net, run as long as a blob is true, in the workspace of the operator."""

from __future__ import annotations

from typing import ClassVar, Final

from caffe2_bridge.control.branch import condition_on_host
from caffe2_bridge.control.description import BodyScope, ControlOperator, Place, Runs
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_LOOP: Final = "loop_net"
_CONDITION: Final = "cond_net"


class While(ControlOperator):
    """``While(condition, ...) -> ...``: ``cond_net``, if any, then ``loop_net`` if the condition is true; and again."""

    types = ("While",)
    arguments: ClassVar = {_CONDITION: False, _LOOP: True}
    condition_argument, loop_argument = _CONDITION, _LOOP
    scope = BodyScope.SHARED
    runs = Runs.LOOP

    @property
    def condition(self) -> str | None:
        """A tensor of one bool."""
        return next(iter(self.op.inputs), None)

    @property
    def loop_net(self) -> NetDef:
        """The net of an iteration."""
        return self.bodies[_LOOP].net

    @property
    def cond_net(self) -> NetDef | None:
        """The net that runs before each test of the condition; without one, ``loop_net`` changes the condition."""
        return self.bodies[_CONDITION].net if _CONDITION in self.bodies else None

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of operands: the condition is on the host."""
        return condition_on_host(*super().places())


def while_arguments(loop_net: NetDef, cond_net: NetDef | None = None) -> dict[str, NetDef]:
    """Return the arguments of a While."""
    return {_LOOP: loop_net} if cond_net is None else {_LOOP: loop_net, _CONDITION: cond_net}
