"""Do: a net in a workspace of its own, which sees the blobs that are bound to names of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

from caffe2_bridge.control.description import Body, BodyScope, ControlOperator, Formal, Runs
from caffe2_bridge.netdef.views import ArgumentError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_NET: Final = "net"
_INNER: Final = "inner_blobs"
_POSITIONS: Final = "outer_blobs_idx"
_REUSE: Final = "reuse_workspace"
_COPIES: Final = "copy_external_blobs"


class Do(ControlOperator):
    """``Do(..., stack) -> ..., stack``: a stack of workspaces comes last, the other operands are bound by index."""

    types = ("Do",)
    arguments: ClassVar = {_NET: True}
    scope = BodyScope.SEALED
    runs = Runs.ONCE
    training_arguments = frozenset({_COPIES})

    def _body(self, argument: str, net: NetDef) -> Body:
        formals = tuple(Formal(inner, source=outer, is_view=True) for inner, outer in self.bindings.items())
        return Body(argument, net, formals=formals)

    @property
    def net(self) -> NetDef:
        """The net."""
        return self.bodies[_NET].net

    @cached_property
    def bindings(self) -> dict[str, str]:
        """Outer blobs by the names that the net has for them. Raises ArgumentError."""
        op = self.op
        inner, positions = op.args.texts(_INNER, ()), op.args.integers(_POSITIONS, ())
        if not op.inputs or not op.outputs or op.inputs[-1] != op.outputs[-1]:
            raise ArgumentError("the last input and the last output must be the same stack of workspaces")
        for what, operands in (("inputs", op.inputs), ("outputs", op.outputs)):
            if twice := _repeated(operands):
                raise ArgumentError(f"the {what} list {twice[0]!r} twice")
        outer = op.inputs[:-1] + op.outputs[:-1]
        if len(inner) != len(positions):
            raise ArgumentError(f"{_INNER!r} has {len(inner)} names, {_POSITIONS!r} {len(positions)} positions")
        wrong = [position for position in positions if not 0 <= position < len(outer)]
        if wrong:
            raise ArgumentError(f"{_POSITIONS!r} holds {wrong[0]}, but there are {len(outer)} outer blobs")
        bound = [outer[position] for position in positions]
        for what, names in ((_INNER, inner), (_POSITIONS, bound)):
            if twice := _repeated(names):
                raise ArgumentError(f"{what!r} binds {twice[0]!r} twice")
        unbound = [name for name in outer if name not in set(bound)]
        if unbound:
            raise ArgumentError(f"{_POSITIONS!r} leaves the outer blob {unbound[0]!r} unbound")
        return dict(zip(inner, bound, strict=True))

    @property
    def stack(self) -> str:
        """The stack of workspaces. Raises ArgumentError where the operator has no operands."""
        if not self.op.inputs:
            raise ArgumentError("the last input must be a stack of workspaces, and the operator has no inputs")
        return self.op.inputs[-1]

    @property
    def stacks(self) -> tuple[str, ...]:
        """The last operand."""
        return self.op.inputs[-1:]

    @property
    def reuses_workspace(self) -> bool:
        """Whether the net runs in the workspace on top of the stack: its blobs are still there in the next run."""
        return self.op.args.flag(_REUSE, default=False)

    @property
    def copies_external_blobs(self) -> bool:
        """Whether the workspace keeps copies of the outer blobs, for the gradient operator."""
        return self.op.args.flag(_COPIES, default=False)

    @property
    def keeps_blobs(self) -> bool:
        """Whether the workspace is one that an earlier run has left."""
        return bool(self.op.proto.is_gradient_op) or self.reuses_workspace

    def reuse_workspace(self) -> None:
        """Run in the workspace on top of the stack, in the operator's protobuf."""
        for arg in [arg for arg in self.op.proto.arg if arg.name == _REUSE]:
            self.op.proto.arg.remove(arg)
        self.op.proto.arg.add(name=_REUSE, i=1)

    def bind_operands(self, inputs: list[str], outputs: list[str]) -> None:
        """Bind the same blobs where they are now."""
        outer = [*inputs[:-1], *outputs[:-1]]
        positions = [outer.index(name) for name in self.bindings.values()]
        for arg in self.op.proto.arg:
            if arg.name == _POSITIONS and list(arg.ints) != positions:
                arg.ints[:] = positions

    def keep_values(self) -> None:
        """Let every run leave a workspace of its own with copies of outer blobs, in the operator's protobuf."""
        for arg in [arg for arg in self.op.proto.arg if arg.name in (_REUSE, _COPIES)]:
            self.op.proto.arg.remove(arg)
        self.op.proto.arg.add(name=_COPIES, i=1)

    def rename_inner(self, names: Mapping[str, str]) -> None:
        """Rename bound blobs in the argument that lists them, in the operator's protobuf; the net is not changed."""
        for arg in self.op.proto.arg:
            if arg.name == _INNER:
                arg.strings[:] = [names.get(name.decode(), name.decode()).encode() for name in arg.strings]


def _repeated(names: Sequence[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]  # add: None


def do_arguments(
    net: NetDef,
    bindings: Mapping[str, str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    copy_external_blobs: bool = False,
    saved_fwd_blobs: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the arguments of a Do.

    Args:
        net: the net.
        bindings: outer blobs by the name that the net has for them.
        inputs: the outer blobs among the operator's inputs, without the stack of workspaces.
        outputs: those among its outputs.
        copy_external_blobs: keep copies of outer blobs in the workspace, for the gradient operator.
        saved_fwd_blobs: of a gradient operator the blobs that it finds in the forward operator's workspace.
    """
    positions: dict[str, int] = {}
    for position, name in enumerate((*inputs, *outputs)):
        positions.setdefault(name, position)
    arguments: dict[str, Any] = {
        _NET: net,
        _INNER: list(bindings),
        _POSITIONS: [positions[outer] for outer in bindings.values()],
    }
    if copy_external_blobs:
        arguments[_COPIES] = True
    if saved_fwd_blobs is not None:
        arguments["saved_fwd_blobs"] = list(saved_fwd_blobs)
    return arguments
