"""The gradient of If: an If of the gradients of its branches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from caffe2_bridge.control import If, if_arguments
from caffe2_bridge.gradients.backward import backward_pass
from caffe2_bridge.gradients.control.bindings import dedupe_g_output, dense_gradients, gradient_net, gradient_op, zeros
from caffe2_bridge.gradients.control.do import read_from_outside
from caffe2_bridge.gradients.forward import Differentiate, Forward, GradientError, SparseGradient
from caffe2_bridge.gradients.operator_maker import add_arguments, copy_operator
from caffe2_bridge.gradients.rename import rename_output
from caffe2_bridge.netdef.views import OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef


@dataclass(slots=True)
class _Branch:
    """The gradient of a branch: operators, by blob the gradient of its value before, and what makes both complete."""

    operators: list[OperatorDef]
    entry: dict[str, str]
    more: list[OperatorDef] = field(default_factory=list)

    def provide(self, blob: str, target: str) -> None:
        """See to it that the branch writes the gradient of a blob to ``target``: what it has, or zeros."""
        name = self.entry.get(blob)
        if name is None:
            self.more.append(zeros(blob, target))
        elif name != target:
            self.more.append(copy_operator(name, target))


def if_gradient(op: Forward) -> None:
    """Make the gradient of an If. A missing branch leaves all as it is, so gradients pass through it."""
    condition = op.x(0)
    control = If(OpView(op.proto, 0))
    then_net, else_net = control.then_net, control.else_net
    copies, given = dedupe_g_output(op.proto, dense_gradients(op.proto, op.g_output))
    seeds = {name: gradient for name, gradient in zip(op.outputs, given, strict=True) if gradient}
    then_branch = _differentiate(then_net, seeds, op.differentiate)
    else_branch = _differentiate(else_net, seeds, op.differentiate)
    branches = (then_branch, else_branch)
    gradients: dict[str, str] = {}
    for blob in dict.fromkeys(op.inputs[1:]):
        if any(blob in branch.entry for branch in branches):
            gradients[blob] = _merge(blob, seeds.get(blob), branches, {*seeds.values(), *gradients.values()})
    computed = {name for blob, name in gradients.items() if name != seeds.get(blob)}
    if not (computed or any(branch.operators or branch.more for branch in branches)):
        for index, blob in enumerate(op.inputs):
            if blob in gradients:
                op.set_dense(index, gradients[blob])
        return
    then_gradient = gradient_net(then_net, [*then_branch.operators, *then_branch.more])
    else_gradient = None
    if else_net is not None:
        else_gradient = gradient_net(else_net, [*else_branch.operators, *else_branch.more])
    elif else_branch.more:
        else_gradient = gradient_net(then_net, else_branch.more, "_grad_auto_else_zero_blobs_")
    nets = if_arguments(then_gradient, else_gradient)
    inputs = _union(read_from_outside(branch.operators) for branch in branches)
    inputs.pop(condition, None)
    outputs = dict.fromkeys(name for net in nets.values() for inner in net.op for name in inner.output)
    result = gradient_op(op.proto, [condition, *inputs], list(outputs))
    add_arguments(result, nets)
    op.operators += [*copies, result]
    for index, blob in enumerate(op.inputs):
        if index and blob in gradients:
            op.set_dense(index, gradients[blob])


def _differentiate(net: NetDef | None, seeds: Mapping[str, str], differentiate: Differentiate) -> _Branch:
    if net is None:
        return _Branch([], dict(seeds))
    found = backward_pass(net.op, seeds, differentiate, net=net.name or "branch")
    entry = {}
    for blob, gradient in found.entry.items():
        if isinstance(gradient, SparseGradient):
            raise GradientError(f"the gradient of {blob!r} in a branch is sparse; a dense one is needed")
        entry[blob] = gradient
    for name in dict.fromkeys(entry.values()):
        writers = [index for index, op in enumerate(found.operators) if name in op.output]
        if writers and name in seeds.values():
            # The other branch may hand on the gradient that comes in under this name.
            at, new = writers[-1], f"_{name}_in_branch"
            rename_output(found.operators, at, list(found.operators[at].output).index(name), new)
            entry = {blob: new if gradient == name else gradient for blob, gradient in entry.items()}
    return _Branch(found.operators, entry)


def _merge(blob: str, given: str | None, branches: Iterable[_Branch], taken: Collection[str]) -> str:
    """Return one name for the gradient of a blob, which both branches write unless both leave what was given.

    ``taken`` are the names of incoming gradients and of those of other blobs: a branch may hand on one gradient to
    several blobs.
    """
    found = [branch.entry.get(blob) for branch in branches]
    if all(name == given for name in found) and given is not None:
        return given
    target = next((name for name in found if name is not None and name != given and name not in taken), None)
    if target is None:
        target = f"{blob}_grad"
        while target in taken or target == given:
            target = f"{target.removesuffix('_grad')}_input_grad"
    for branch in branches:
        branch.provide(blob, target)
    return target


def _union(names: Iterable[Mapping[str, None]]) -> dict[str, None]:
    return {name: None for some in names for name in some}
