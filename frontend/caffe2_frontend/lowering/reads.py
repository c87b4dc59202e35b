"""Find who reads blobs: how often each is read, and what gradient operators find in step workspaces.

Few converters ask, and most nets have none of these: nothing is counted before it is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from caffe2_bridge.cached import cached_property
from caffe2_bridge.control import Do, RecurrentNetworkGradient, While, control_class
from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.netdef.nested import nets_in, operators_in
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of

_DEPTH: Final = "HasScope"
_ON_WORKSPACES: Final = frozenset({_DEPTH, *Do.types, *RecurrentNetworkGradient.types})


class BlobReads:
    """Who reads the blobs of a net and its sub-nets. The net must not change meanwhile."""

    def __init__(self, net: NetDef | None = None, outputs: Iterable[str] = ()) -> None:
        """Count also the reads of the caller: those of the blobs ``outputs``."""
        self._net = NetDef() if net is None else net
        self._outputs = tuple(outputs)

    @cached_property
    def counts(self) -> Counter[str]:
        """How often operators, and the caller, read each blob."""
        counts = count_reads(self._net)
        counts.update(self._outputs)
        return counts

    @cached_property
    def forward(self) -> Counter[str]:
        """How often operators that are not part of a gradient, and the caller, read each blob."""
        counts = count_forward_reads(self._net)
        counts.update(self._outputs)
        return counts

    @cached_property
    def steps(self) -> Mapping[str, frozenset[str]]:
        """By blob of step workspaces, the blobs of a step that gradient operators find there."""
        return _step_reads(self._on_workspaces)

    @cached_property
    def kept(self) -> Mapping[str, frozenset[str]]:
        """By stack of workspaces, the blobs that gradients find in its workspaces."""
        return _kept_reads(self._on_workspaces)

    @cached_property
    def loop_stacks(self) -> frozenset[str]:
        """The stacks of workspaces on which nothing pushes but one Do in the body of a loop of the outermost net."""
        return _loop_stacks(self._net, self._on_workspaces)

    @cached_property
    def reused_stacks(self) -> frozenset[str]:
        """The stacks of workspaces on which some Do finds the blobs that an earlier one left."""
        return _reused_stacks(self._on_workspaces)

    @cached_property
    def _on_workspaces(self) -> list[OperatorDef]:
        """The operators that keep workspaces, or read what is kept, in order."""
        return [op for op in operators_in(self._net) if op.type in _ON_WORKSPACES]


def count_reads(net: NetDef) -> Counter[str]:
    """Count how often each blob is read in a net and its sub-nets: as an input, or by name in an argument."""
    names: list[str] = []
    for op in operators_in(net):
        names += op.input[:]
        if op.arg:
            names += _named(op)
    return Counter(names)


def _named(op: OperatorDef) -> Iterator[str]:
    """Yield the blobs that an operator reads by name in an argument."""
    operator = control_class(op)
    own = frozenset[str]() if operator is None else operator.own_arguments
    for arg in op.arg:
        if arg.name not in own:
            for value in arg.strings:
                yield value.decode(errors="replace")


def count_forward_reads(net: NetDef) -> Counter[str]:
    """Count how often operators that are not part of a gradient read each blob in a net and its sub-nets."""
    names: list[str] = []
    waiting = [net]
    while waiting:
        for op in waiting.pop().op:
            if not op.is_gradient_op:
                names += op.input[:]
                if op.arg:
                    waiting += nets_in(op)
    return Counter(names)


def _kept_reads(ops: Iterable[OperatorDef]) -> Mapping[str, frozenset[str]]:
    """Return, by stack of workspaces, the blobs that the gradients of Do operators find in its workspaces.

    A stack without such blobs whose depth is read is in it, too.
    """
    found: dict[str, set[str]] = {}
    for op in ops:
        if op.type == _DEPTH and op.input:
            found.setdefault(op.input[0], set())
        elif op.type in Do.types and op.is_gradient_op and op.input:
            found.setdefault(op.input[-1], set()).update(_found_in_workspace(op))
    return {name: frozenset(blobs) for name, blobs in found.items()}


def _found_in_workspace(op: OperatorDef) -> Iterator[str]:
    """Yield what the gradient of a Do finds there; nothing if it cannot be read, which its converter reports."""
    try:
        do = Do(OpView(op, 0))
        effects, bound = effects_of(do.net, op.type), set(do.bindings)
    except (ArgumentError, ConversionError):
        return
    yield from (name for name in {**effects.exposed, **effects.soft} if name not in bound)


def _loop_stacks(net: NetDef, ops: Iterable[OperatorDef]) -> frozenset[str]:
    """Return the stacks on which nothing pushes but one Do in the body of a loop of the outermost net."""
    pushes = Counter(op.input[-1] for op in ops if _pushes(op))
    if not pushes:
        return frozenset()
    loops = (op for op in net.op if op.type in While.types)
    bodies = (body for op in loops for body in nets_in(op))
    return frozenset(op.input[-1] for body in bodies for op in body.op if _pushes(op) and pushes[op.input[-1]] == 1)


def _reused_stacks(ops: Iterable[OperatorDef]) -> frozenset[str]:
    """Return the stacks of workspaces on which some Do finds the blobs that an earlier one left."""
    candidates = (op for op in ops if op.type in Do.types and not op.is_gradient_op and op.input)
    return frozenset(op.input[-1] for op in candidates if _reuses_workspace(op))


def _pushes(op: OperatorDef) -> bool:
    """Whether an operator leaves a workspace on a stack."""
    return op.type in Do.types and not op.is_gradient_op and bool(op.input) and not _reuses_workspace(op)


def _reuses_workspace(op: OperatorDef) -> bool:
    """Whether a Do runs in the workspace that an earlier one left; not if its argument is wrong, which is reported."""
    try:
        return Do(OpView(op, 0)).reuses_workspace
    except ArgumentError:
        return False


def _step_reads(ops: Iterable[OperatorDef]) -> Mapping[str, frozenset[str]]:
    """Return, by blob of step workspaces, the blobs of a step that backward step nets find."""
    found: dict[str, set[str]] = {}
    for op in ops:
        if op.type in RecurrentNetworkGradient.types and op.input:
            control = RecurrentNetworkGradient(OpView(op, 0))
            found.setdefault(control.workspaces, set()).update(_found_in_steps(control))
    return {name: frozenset(blobs) for name, blobs in found.items()}


def _found_in_steps(control: RecurrentNetworkGradient) -> Iterator[str]:
    """Yield what the backward step net finds; nothing if it cannot be read, which its converter reports."""
    try:
        spec = control.spec
        effects = effects_of(spec.step_net, spec.argument)
    except (ArgumentError, ConversionError):
        return
    yield from effects.found
    yield from (link.internal for link in spec.links if link.internal in effects.may)
    yield from (parameter.internal for parameter in spec.parameters)
