"""If and AsyncIf: one of two nets, or none, in the workspace of the operator."""

from __future__ import annotations

from typing import ClassVar, Final

from caffe2_bridge.control.description import BodyScope, ControlOperator, Place, Runs
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_THEN: Final = "then_net"
_ELSE: Final = "else_net"


class If(ControlOperator):
    """``If(condition, ...) -> ...``: ``then_net`` runs where the condition is true, ``else_net`` where it is false.

    Operands after the condition only declare what the nets use.
    """

    types = ("If", "AsyncIf")
    arguments: ClassVar = {_THEN: True, _ELSE: False}
    scope = BodyScope.SHARED
    runs = Runs.BRANCH
    optional_branch = _ELSE

    @property
    def condition(self) -> str | None:
        """A tensor of one bool."""
        return next(iter(self.op.inputs), None)

    @property
    def then_net(self) -> NetDef:
        """The net that runs where the condition is true."""
        return self.bodies[_THEN].net

    @property
    def else_net(self) -> NetDef | None:
        """The net that runs where the condition is false."""
        return self.bodies[_ELSE].net if _ELSE in self.bodies else None

    def taken(self, *, condition: bool) -> str:
        """Return the argument with the net that runs; the operator need not have one there."""
        return _THEN if condition else _ELSE

    def places(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Return the places of operands: the condition is on the host."""
        return condition_on_host(*super().places())


def condition_on_host(
    inputs: tuple[Place, ...], outputs: tuple[Place, ...]
) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
    """Return the places of operands, with the first input on the host."""
    return (Place.HOST, *inputs[1:]) if inputs else inputs, outputs


def if_arguments(then_net: NetDef, else_net: NetDef | None = None) -> dict[str, NetDef]:
    """Return the arguments of an If."""
    return {_THEN: then_net} if else_net is None else {_THEN: then_net, _ELSE: else_net}
