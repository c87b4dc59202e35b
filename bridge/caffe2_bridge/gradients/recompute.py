"""Trade time for memory in gradients of recurrent nets: compute blobs of the steps again instead of keeping them.

This is what ``recompute_blobs_on_backward`` of Caffe2's ``recurrent_net`` does for the blobs that it lists: the
backward step net starts with the operators that compute them. Here it is done for all blobs of nets that did not ask
for it. What remains in memory are the rows of the states, and results of random operators, which must not be drawn
again.
"""

from __future__ import annotations

from collections.abc import Sequence

from caffe2_bridge.control import RecurrentNetwork, RecurrentNetworkGradient
from caffe2_bridge.control.backward_spec import BACKWARD_STEP, RECOMPUTED, BackwardSpec
from caffe2_bridge.init.random_operators import draws_numbers
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of


def recompute_steps(net: NetDef) -> NetDef:
    """Have the gradients of recurrent nets compute the blobs of each step again, from the rows of the states.

    Args:
        net: a net with RecurrentNetwork operators and their gradient operators; it is not changed.

    Returns:
        The net, equal but for the backward step nets of its own operators (not of those in bodies) and their arguments
        ``recompute_blobs_on_backward``. Operators whose steps write over rows that they read, that list such blobs
        already, or that have the format of early 2017 keep their form.
    """
    result = NetDef()
    result.CopyFrom(net)
    for op in result.op:
        if op.type in RecurrentNetworkGradient.types and not op.domain:
            forward = [each for each in result.op if _leaves_steps_for(each, op)]
            _recompute(op, forward)
    return result


def _leaves_steps_for(op: OperatorDef, gradient: OperatorDef) -> bool:
    return (
        op.type in RecurrentNetwork.types
        and not op.domain
        and RecurrentNetwork(OpView(op, 0)).workspaces == RecurrentNetworkGradient(OpView(gradient, 0)).workspaces
        and not OpView(op, 0).args.texts(RECOMPUTED, ())
    )


def _recompute(gradient: OperatorDef, forward: Sequence[OperatorDef]) -> None:
    try:
        spec = RecurrentNetworkGradient(OpView(gradient, 0)).spec
    except ArgumentError:  # which the conversion reports
        return
    if spec.recomputed or spec.forward.scratches:
        return
    indices = _operators_to_repeat(spec)
    if not indices:
        return
    ops = [spec.forward.step_net.op[index] for index in sorted(indices)]
    names = list(dict.fromkeys(name for op in ops for name in op.output))
    controls = (RecurrentNetworkGradient(OpView(gradient, 0)), *(RecurrentNetwork(OpView(op, 0)) for op in forward))
    for control in controls:
        op = control.op.proto
        if BACKWARD_STEP in control.bodies:
            _prepend(control.bodies[BACKWARD_STEP].net, ops)
            control.store(BACKWARD_STEP)
        kept = [arg for arg in op.arg if arg.name != RECOMPUTED]
        del op.arg[:]
        op.arg.extend(kept)
        op.arg.add(name=RECOMPUTED, strings=[name.encode() for name in names])


def _prepend(net: NetDef, ops: Sequence[OperatorDef]) -> None:
    """Insert operators at the start of a net, which then reads what they read."""
    set_operators(net, [*ops, *net.op])
    written = {name for op in ops for name in op.output}
    read = (name for op in ops for name in op.input if name not in written)
    net.external_input.extend(name for name in dict.fromkeys(read) if name not in net.external_input)


def _operators_to_repeat(spec: BackwardSpec) -> set[int]:
    """Return operators of the step net that compute what the backward step net finds; none if they cannot run again."""
    effects = effects_of(spec.forward.step_net, spec.forward.argument)
    net = effects.net
    writers: dict[str, list[int]] = {}
    for index, op in enumerate(effects.ops):
        for name in op.changed:
            writers.setdefault(name, []).append(index)
    fixed = {index for index, op in enumerate(effects.ops) if op.mutates or draws_numbers(OpView(net.op[index], index))}
    linked = {link.internal for link in spec.forward.links}
    wanted = [name for name in effects_of(spec.step_net, spec.argument).found if name in writers and name not in linked]
    indices: set[int] = set()
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen or (name in linked and len(writers[name]) == 1):
            continue  # the row of a state holds what its only operator wrote
        seen.add(name)
        if fixed.intersection(writers[name]):
            if len(writers[name]) > 1:
                return set()
            continue  # the results of this operator are kept
        indices.update(writers[name])
        wanted += [read for index in writers[name] for read in effects.ops[index].found if read in writers]
    written = {name for index in indices for name in effects.ops[index].changed}
    return set() if written.intersection(linked, effects.found) else indices
