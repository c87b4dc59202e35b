"""Remove from nets what only training needs: backward step nets, and workspaces that are kept for gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from google.protobuf.message import Message

from caffe2_bridge.control import Do, all_operators, control_class, control_of, edit_bodies, nets_run_by
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.netdef.views import NetView, OpView, as_net_def
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_bridge.ssa.effects import analyse, effects_of
from caffe2_bridge.ssa.objects import final_objects

_NET: Final = Location("net")


def forward_only(net: Message | bytes) -> NetDef:
    """Return the net without what only its gradient needs, in bodies too: it computes the same, and is smaller.

    RecurrentNetwork operators lose their backward step nets and the other arguments that training reads; without them
    real Caffe2 keeps a few workspaces instead of one for each step. A Do keeps no copies of outer blobs. It runs in the
    same workspace again, instead of adding one to its stack in each run, where its net does not read blobs that an
    earlier run has left there. External outputs that are objects, such as step workspaces, are left out.

    Returns:
        A new net. Raises ConversionError where a gradient operator needs what an operator with bodies keeps, or where
        an argument of such an operator is wrong.
    """
    result = NetDef()
    result.CopyFrom(as_net_def(net))
    effects_of(result, _NET.net)  # raises where an argument is wrong
    findings = list(_gradients(result, _NET))
    if findings:
        raise ConversionError(findings)
    objects = final_objects(result)
    result.external_output[:] = [name for name in result.external_output if name not in objects]
    _strip(result, _own_stacks(result))
    return result


def _gradients(net: NetDef, location: Location) -> Iterator[Diagnostic]:
    for index, proto in enumerate(net.op):
        here = Location(location.net, index, proto.type, proto.name, location.path)
        control = control_class(proto)
        if control is not None and (proto.is_gradient_op or not control.is_forward):
            reason = "the operator computes a gradient with what its forward operator keeps"
            hint = "give the net without gradient operators: remove_dead_end_ops removes them where nothing needs them"
            yield Diagnostic("illegal-graph-edit", reason, here, hint=hint)
            continue
        for name, body in nets_run_by(OpView(proto, index)):
            yield from _gradients(body, here.enter(name))


def _strip(net: NetDef, stacks: set[str]) -> None:
    for index, proto in enumerate(net.op):
        control = control_of(OpView(proto, index))
        if control is None:
            for arg in proto.arg:
                if arg.HasField("n"):
                    _strip(arg.n, stacks)
            continue
        for arg in [arg for arg in proto.arg if arg.name in control.training_arguments]:
            proto.arg.remove(arg)
        edit_bodies(proto, lambda body: _strip(body, stacks))
        if isinstance(control, Do) and control.stack in stacks and not control.reuses_workspace and _is_closed(control):
            control.reuse_workspace()


def _is_closed(control: Do) -> bool:
    """Whether the net of a Do finds no blobs but those that are bound: none that an earlier run of it has left."""
    effects = analyse(control.net, _NET, [])
    return {*effects.found, *effects.mutates} <= control.bindings.keys()


def _own_stacks(net: NetDef) -> set[str]:
    """Return the stacks of workspaces that one Do alone uses: others run in different workspaces of one stack."""
    used, bound = Counter[str](), set[str]()
    for op in all_operators(NetView(net)):
        control = control_of(op)
        if isinstance(control, Do) and op.inputs:
            used[control.stack] += 1
            bound.update((*control.bindings, *control.bindings.values()))
        elif op.type != "CreateScope" and control is None:
            bound.update((*op.inputs, *op.outputs))
    return {stack for stack, count in used.items() if count == 1} - bound
