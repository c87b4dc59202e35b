"""Make programs of nets."""

from __future__ import annotations

from caffe2_bridge.control import Role, control_of
from caffe2_bridge.diagnostics import Diagnostic, Location
from caffe2_bridge.netdef.views import ArgumentError, NetView, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.schemas import operator_schema
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.objects import INDEX_TYPES
from caffe2_bridge.unsupported_types import unsupported_reasons
from caffe2_torch.evaluation.program import Program, ProgramStep
from caffe2_torch.ops import find_function

_HINT = "choose outputs that do not need it: to_torch(model, outputs=[NAME])"


def compile_net(net: NetDef, location: Location, findings: list[Diagnostic]) -> Program:
    """Find the functions of all operators, in bodies too. What is wrong is appended to ``findings``."""
    effects = analyse(net, location, [])
    return _compile(net, location, effects, findings)


def _compile(net: NetDef, location: Location, effects: NetEffects, findings: list[Diagnostic]) -> Program:
    last = _last_reads(effects)
    steps = []
    for view in NetView(net).ops:
        here = Location(location.net, view.index, view.type, view.name, location.path)
        step = _step(view, here, findings)
        if step is not None:
            step.last_reads = tuple(last.get(view.index, ()))
            steps.append(step)
    return Program(tuple(steps), frozenset(effects.found), frozenset(effects.may))


def _step(view: OpView, here: Location, findings: list[Diagnostic]) -> ProgramStep | None:
    function = None if view.proto.domain else find_function(view.type)
    if function is None:
        why = _reason(view.type)
        reason = f"operator {view.type!r} has no conversion to PyTorch" + (f": {why}" if why else "")
        findings.append(Diagnostic("unknown-operator", reason, here, hint=_HINT))
        return None
    schema = operator_schema(view.type)
    if schema is not None and not schema.accepts_counts(len(view.inputs), len(view.outputs)):
        reason = f"{view.type} does not have {len(view.inputs)} inputs and {len(view.outputs)} outputs"
        findings.append(Diagnostic("operand-count", reason, here))
        return None
    control = control_of(view)
    try:
        view.args  # noqa: B018 - raises where an argument is given twice
        bodies = {
            name: compile_net(body.net, here.enter(name), findings)
            for name, body in (control.bodies if control else {}).items()
            if body.role is Role.RUN
        }
    except ArgumentError as error:
        findings.append(Diagnostic("invalid-argument", str(error), here))
        return None
    return ProgramStep(view, function, here, control, bodies)


def _reason(op_type: str) -> str:
    """Return why PyTorch has nothing for an operator type; empty if it might."""
    if op_type in INDEX_TYPES or op_type.startswith("Index"):
        return "an index numbers keys, mostly texts, which PyTorch has no tensors of"
    if "Gradient" in op_type or op_type.endswith("Grad"):
        return "gradients are PyTorch's own"
    return unsupported_reasons().get(op_type, "")


def _last_reads(effects: NetEffects) -> dict[int, list[str]]:
    """Return the blobs that are last touched by each operator, by its index."""
    last = {name: index for index, op in enumerate(effects.ops) for name in op.touched}
    found: dict[int, list[str]] = {}
    for name, index in last.items():
        found.setdefault(index, []).append(name)
    return found
