"""Stages: a net cut at its host operators. Operators between two cuts are one program, as a whole net is without them.

Stages run in the order of the net, each on the blobs that those before it left in the workspace: an operator on the
host may wait for another thread, stop the net, or have an effect outside, so that nothing moves across it. Operators
with bodies that hold host operators are stages, too: their bodies are nets that run in stages in turn.
A program that cannot be converted, because bodies leave values of other types or ranks, is cut at all such operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from caffe2_backend.runtime.blobs.frame import Frame
from caffe2_backend.runtime.host.family import Ahead, HostOp
from caffe2_backend.runtime.host.registry import (
    HOST_OPERATORS,
    bodies_have_host_operators,
    has_host_operators,
    is_host_operator,
)
from caffe2_backend.runtime.placement.make import Runnable, make_program
from caffe2_backend.runtime.plans.tensor_stage import Stage, TensorStage
from caffe2_backend.runtime.program.interface import updated_in_place
from caffe2_backend.runtime.program.origin import Origin
from caffe2_backend.runtime.sessions.session_options import SessionOptions
from caffe2_backend.runtime.stepping.bodies import WALKED, BodyRunner
from caffe2_bridge.control import ControlOperator, Do, all_operators, control_of
from caffe2_bridge.diagnostics import Location, RunError
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import count_violation, operator_schema
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.outputs import declared_outputs

PrepareBody = Callable[[NetDef, Location], Stage]


class HostStage:
    """One host operator. Raises RunError if it does not have as many inputs and outputs as Caffe2's schema asks for."""

    conversions = 0

    def __init__(self, op: OpView, location: Location) -> None:
        schema = operator_schema(op.type)
        violation = None if schema is None else count_violation(schema, op.type, len(op.inputs), len(op.outputs))
        if violation is not None:
            failure = RunError(f"{location}: {violation.reason}")
            failure.operator = op.index
            raise failure
        self._op = op
        self._location = location
        self._function = HOST_OPERATORS[op.type]
        self._state: dict[str, Any] = {}

    def run(self, frame: Frame) -> None:
        """Run once. Raises RunError if the operator fails."""
        try:
            self._function(HostOp(self._op, frame, self._location, self._state))
        except ArgumentError as error:
            failure = RunError(f"{self._location}: {error}")
            failure.operator = self._op.index
            raise failure from None
        except RunError as error:
            error.operator = self._op.index
            raise

    def restart(self) -> None:
        """Forget what the operator keeps from run to run; wait for what it does ahead."""
        state, self._state = self._state, {}
        for kept in state.values():
            if isinstance(kept, Ahead):
                kept.finish()


class ControlStage:
    """An operator with bodies that are run one by one: prepared nets."""

    def __init__(self, control: ControlOperator, location: Location, prepare: PrepareBody) -> None:
        self._control = control
        self._location = location
        self._prepare = prepare
        self._nets: dict[str, Stage] = {}
        self._runner = BodyRunner(self._run_body)

    @property
    def conversions(self) -> int:
        """How many conversions there were so far."""
        return sum(net.conversions for net in self._nets.values())

    def run(self, frame: Frame) -> None:
        """Run once. Raises RunError if a body fails."""
        try:
            self._runner.enter(self._control, frame, self._location, ())
        except RunError as error:
            error.operator = self._location.index
            raise

    def restart(self) -> None:
        """Forget what operators of bodies keep from run to run."""
        for net in list(self._nets.values()):
            net.restart()

    def _run_body(self, net: NetDef, frame: Frame, location: Location, iterations: tuple[int, ...]) -> None:
        del iterations
        prepared = self._nets.get(location.net)
        if prepared is None:
            prepared = self._nets.setdefault(location.net, self._prepare(net, location))
        prepared.run(frame)


def make_stages(
    net: NetDef,
    device: str | None,
    options: SessionOptions,
    location: Location,
    prepare: PrepareBody,
    *,
    constant: bool,
) -> tuple[Stage, ...]:
    """Cut a net into stages; one without host operators is one stage.

    Args:
        net: the net; it must not be changed any more.
        device: see :func:`make_program`.
        options: of sessions.
        location: of the net.
        prepare: prepares a body.
        constant: whether the net reads nothing.
    """

    def make_alone(op: OpView) -> Runnable:
        return make_program(_part(net, [op], set()), device, options, origin=Origin(location, [op.index]))

    def tensor_stage(program: Runnable, ops: Sequence[OpView], *, constant: bool = False) -> TensorStage:
        walks = any(map(_has_walked_bodies, ops)) and not _keeps_workspaces(net)
        through_bodies = partial(cut, ops, _has_walked_bodies) if walks else None
        return TensorStage(program, ops, make_alone, location, constant=constant, through_bodies=through_bodies)

    def cut(ops: Sequence[OpView], is_walked: Callable[[OpView], bool]) -> Iterator[Stage]:
        effects = analyse(net, location, [])
        declared, updated = set(declared_outputs(net)), updated_in_place(net, effects)
        for group in _groups(ops, is_walked):
            op = group[0]
            here = Location(location.net, op.index, op.type, op.name, location.path)
            if is_host_operator(op.proto):
                yield HostStage(op, here)
            elif is_walked(op):
                control = control_of(op)
                assert control is not None
                yield ControlStage(control, here, prepare)
            else:
                part = _part(net, group, declared)
                keep = _kept(effects, group)
                origin = Origin(location, [op.index for op in group])
                program = make_program(part, device, options, keep=keep, origin=origin, updated=updated)
                yield tensor_stage(program, group)  # not constant: a host operator may read what changes

    ops = NetView(net).ops
    if has_host_operators(net):
        return tuple(cut(ops, _holds_host_operators))
    return (tensor_stage(make_program(net, device, options, origin=Origin(location)), ops, constant=constant),)


def _has_walked_bodies(op: OpView) -> bool:
    return op.type in WALKED and not op.proto.domain


def _keeps_workspaces(net: NetDef) -> bool:
    """Whether a Do runs in a workspace that an earlier run has left, which bodies that are run one by one do not."""
    controls = map(control_of, all_operators(NetView(net)))
    try:
        return any(isinstance(control, Do) and control.keeps_blobs for control in controls)
    except ArgumentError:  # the conversion reports it
        return True


def _holds_host_operators(op: OpView) -> bool:
    return op.type in WALKED and bodies_have_host_operators(op.proto)


def _groups(ops: Sequence[OpView], is_walked: Callable[[OpView], bool]) -> Iterator[Sequence[OpView]]:
    """Yield the operators of each stage, in order."""
    group: list[OpView] = []
    for op in ops:
        if is_host_operator(op.proto) or is_walked(op):
            if group:
                yield group
            yield [op]
            group = []
        else:
            group.append(op)
    if group:
        yield group


def _part(net: NetDef, group: Sequence[OpView], declared: set[str]) -> NetDef:
    """Return a net of some operators."""
    part = NetDef(name=net.name, op=[op.proto for op in group], arg=net.arg)
    if net.HasField("device_option"):
        part.device_option.CopyFrom(net.device_option)
    outputs = dict.fromkeys(name for op in group for name in op.outputs if name in declared)
    part.external_output.extend(outputs)
    return part


def _kept(effects: NetEffects, group: Sequence[OpView]) -> set[str]:
    """Return the blobs that a stage must return: those that later stages read, or the first ones in the next run."""
    later = effects.ops[group[-1].index + 1 :]
    return {*effects.found, *(name for op in later for name in op.found)}
