"""Bodies of loops and branches that keep what their gradients need: on local blobs, copied to outer ones at the end.

A body may overwrite a blob that it reads (``y = tanh(y * w)``), so that its gradient finds another value; and real
Caffe2 replaces a workspace's copies of outer blobs from run to run. A body that computes on blobs of its own leaves all
of its values in its workspace, from iteration to iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from caffe2_bridge.control import Do, If, While, all_names, do_arguments, rename_control
from caffe2_bridge.gradients.control.bindings import DoBinding
from caffe2_bridge.gradients.operator_maker import add_arguments, copy_operator
from caffe2_bridge.netdef.replace import set_operators
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, effects_of
from caffe2_bridge.ssa.objects import object_outputs


def with_local_bodies(net: NetDef, losses: Iterable[str], skip: int) -> NetDef:
    """Return a net whose loops and branches that losses depend on compute on local blobs; the net itself if all do.

    Args:
        net: the net, which is not changed.
        losses: the blobs to differentiate.
        skip: the number of operators at the start that are not differentiated.

    Raises ConversionError where an argument of an operator with bodies is wrong.
    """
    chosen = [index for index in _needed(net, set(losses)) if index >= skip and _has_branches(net.op[index])]
    if not chosen:
        return net
    result = NetDef()
    result.CopyFrom(net)
    names = _Names(net)
    _localize_bodies(result, names, set(chosen))
    return result if result != net else net


def _has_branches(op: OperatorDef) -> bool:
    return op.type in (*If.types, *While.types, "Do")


def _needed(net: NetDef, wanted: set[str]) -> Iterator[int]:
    """Yield the indices of the operators on which blobs depend, from the last to the first."""
    for index in range(len(net.op) - 1, -1, -1):
        op = net.op[index]
        if not wanted.isdisjoint(op.output):
            wanted.update(op.input)
            yield index


class _Names:
    """New names of blobs, which occur nowhere in a net or its bodies."""

    def __init__(self, net: NetDef) -> None:
        self._taken = {*all_names(net)}

    def fresh(self, base: str) -> str:
        """Return a new name."""
        number, name = 0, base
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name


def _localize_bodies(net: NetDef, names: _Names, chosen: Collection[int]) -> None:
    """Change the chosen operators of a net, bodies in them included, in place."""
    operators = list(net.op)
    reads = [set(op.found) for op in effects_of(net, net.name or "net").ops]
    result: list[OperatorDef] = []
    for index, op in enumerate(operators):
        if index in chosen and op.type in While.types:
            others = (found for other, found in enumerate(reads) if other != index)
            result += _prepare_loop(op, names, set(net.external_output).union(*others))
        elif index in chosen and op.type in If.types:
            _prepare_branches(op, names)
        elif index in chosen and op.type == "Do":
            _prepare_do(op, names, is_repeated=False)
        result.append(op)
    if len(result) > len(operators):
        set_operators(net, result)


def _localize_nested(net: NetDef, names: _Names) -> None:
    chosen = [index for index, op in enumerate(net.op) if _has_branches(op)]
    if chosen:
        _localize_bodies(net, names, chosen)


def _prepare_loop(op: OperatorDef, names: _Names, outer_reads: Collection[str]) -> list[OperatorDef]:
    """See to it that the body of a loop is one Do that keeps its workspaces; returns what to run before the loop."""
    loop = While(OpView(op, 0))
    body = loop.loop_net
    before: list[OperatorDef] = []
    if len(body.op) != 1 or body.op[0].type != "Do":
        before = [_wrap(op, loop, names, outer_reads)]
    Do(OpView(body.op[0], 0)).keep_values()
    _prepare_do(body.op[0], names, is_repeated=True)
    for argument in loop.bodies:
        loop.store(argument)
    return before


def _wrap(op: OperatorDef, loop: While, names: _Names, outer_reads: Collection[str]) -> OperatorDef:
    """Put the body of a loop into a Do. What only the body sees becomes local."""
    body = loop.loop_net
    effects = effects_of(body, body.name or "body of a loop")
    found = {**effects.exposed, **effects.soft}
    reads = {*outer_reads, *op.output, *found}
    if loop.cond_net is not None:
        reads.update(effects_of(loop.cond_net, loop.cond_net.name or "condition of a loop").found)
    else:
        reads.add(op.input[0])
    written = [name for name in effects.may if name in reads]
    inputs = list(dict.fromkeys([*found, *(name for name in written if name in op.input)]))
    stack = names.fresh(f"{body.name or 'loop'}_workspace")
    inner = NetDef(name=names.fresh(f"{body.name or 'loop'}_body"), op=body.op)
    do = OperatorDef(type="Do", input=[*inputs, stack], output=[*written, stack])
    add_arguments(do, do_arguments(inner, {name: name for name in (*inputs, *written)}, inputs, written))
    set_operators(body, [do])
    op.input[:] = [op.input[0], *inputs, stack]
    op.output[:] = [*dict.fromkeys([*op.output, *written]), stack]
    return OperatorDef(type="CreateScope", output=[stack])


def _prepare_do(op: OperatorDef, names: _Names, *, is_repeated: bool) -> None:
    """Let the net of a Do compute on local blobs: all of it in a loop, else where it overwrites what it reads."""
    control = Do(OpView(op, 0))
    binding = DoBinding.of(op)
    _localize_nested(binding.net, names)
    inner = {binding.inner[name] for name in binding.outputs if name in binding.inner}
    bound = {binding.inner[name] for name in binding.inputs if name in binding.inner}
    effects = effects_of(binding.net, binding.net.name or "net")
    if not is_repeated:
        inner = _overwritten(effects) & inner
    if not _is_local(effects, inner):
        _localize(effects, inner, bound, names)
    control.store("net")


def _prepare_branches(op: OperatorDef, names: _Names) -> None:
    """Let the branches of an If compute on local blobs where they overwrite what they read.

    The If then lists all that its branches read and write: its gradient, which takes the same branch, reads it.
    """
    control = If(OpView(op, 0))
    written: dict[str, None] = {}
    found: dict[str, None] = {}
    for argument, body in control.bodies.items():
        net = body.net
        _localize_nested(net, names)
        effects = effects_of(net, net.name or argument)
        overwritten = _overwritten(effects)
        if overwritten:
            _localize(effects, overwritten, overwritten & {*effects.found}, names)
        control.store(argument)
        after = effects_of(net, net.name or argument)
        found |= dict.fromkeys((*after.exposed, *after.soft))
        written |= dict.fromkeys(
            (*after.may, *after.mutates, *(name for each in net.op for name in object_outputs(each)))
        )
    op.input.extend(name for name in found if name not in op.input)
    op.output.extend(name for name in written if name not in op.output)


def _is_local(effects: NetEffects, outer: Collection[str]) -> bool:
    """Whether outer blobs are only copied: to local ones before, and from local ones after all else."""
    written: set[str] = set()
    for proto, op in zip(effects.net.op, effects.ops, strict=True):
        touches = {name for name in op.touched if name in outer}
        if touches and (proto.type != "Copy" or not written.isdisjoint(touches)):
            return False
        written.update(name for name in op.changed if name in outer)
    return True


def _overwritten(effects: NetEffects) -> set[str]:
    """Return the tensors that a net writes after it has found or written another value of them."""
    seen: set[str] = set()
    found: set[str] = set()
    for proto, op in zip(effects.net.op, effects.ops, strict=True):
        if op.control is not None and op.control.type == "Do":
            seen.update(op.touched)  # a Do keeps values of its own
            continue
        used = set() if proto.type == "Copy" else {*op.reads, *op.soft}  # the gradient of a copy needs no values
        found.update(name for name in op.changed if name in seen or name in used)
        seen.update((*used, *op.changed))
    return found


def _localize(effects: NetEffects, outer: Collection[str], bound: Collection[str], names: _Names) -> None:
    """Give every value of outer blobs a local blob of its own; copy the last values to the outer blobs at the end.

    Args:
        effects: of the net, which is changed.
        outer: the blobs.
        bound: those that hold a value before the net runs.
        names: for local blobs.
    """
    net = effects.net
    current: dict[str, str] = {}
    written: dict[str, None] = {}
    result: list[OperatorDef] = []
    for proto, op in zip(list(net.op), effects.ops, strict=True):
        for name in op.found:
            if name in outer and name in bound and name not in current:
                current[name] = names.fresh(f"{name}_local")
                result.append(copy_operator(name, current[name]))
        found = {name: current[name] for name in op.found if name in current}
        left = {name: found[name] for name in op.passes if name in found}
        for name in op.changed:
            if name not in outer:
                continue
            left[name] = names.fresh(f"{name}_local")
            # A body finds and leaves a blob under one name.
            if name not in op.writes or (op.control is not None and name in op.found):
                if name in current:
                    result.append(copy_operator(current[name], left[name]))
                found[name] = left[name]
        rename_control(proto, found, left)
        result.append(proto)
        current |= left
        written |= dict.fromkeys(name for name in op.changed if name in outer)
    result += [copy_operator(current[name], name) for name in written]
    set_operators(net, result)
