"""Training nets: what a net that computes gradients reads, updates and minimizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.diagnostics import Location
from caffe2_bridge.netdef.views import ArgumentError, OpView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import NetEffects, analyse
from caffe2_bridge.ssa.in_place import updated as updated_in_place
from caffe2_bridge.ssa.objects import final_objects, objects_of
from caffe2_bridge.ssa.outputs import declared_outputs, unread_outputs

# Operators of forward nets with such names.
_FORWARD: Final = frozenset({"NegateGradient", "StopGradient"})
# What Caffe2 appends to the name of a blob for its gradient: dense, or sparse as rows and their indices.
_GRADIENT_SUFFIXES: Final = ("_grad", "_grad_values", "_grad_indices")


@dataclass(frozen=True)
class TrainingNet:
    """What a training net updates and minimizes, by blob name.

    Attributes:
        losses: the blobs that the gradients start from.
        updated: the parameters, states of optimizers, running statistics and counters that the net reads and
            overwrites, in the order in which it reads them: the next step reads them again.
        gradients: the gradients of updated parameters that the net writes.
        metrics: the outputs of the forward part that no operator reads, such as an accuracy.
    """

    losses: tuple[str, ...]
    updated: tuple[str, ...]
    gradients: tuple[str, ...]
    metrics: tuple[str, ...]


def is_gradient_operator(op_type: str) -> bool:
    """Whether operators of a type compute gradients."""
    return op_type.endswith(("Gradient", "Grad")) and op_type not in _FORWARD


def computes_gradients(net: NetDef) -> bool:
    """Whether a net has gradient operators."""
    return any(map(is_gradient_operator, {op.type for op in net.op if not op.domain}))


def training_net(net: NetDef, filled: Collection[str] | None = None) -> TrainingNet | None:
    """Analyze a training net; None if the net does not compute gradients, or does not update anything.

    Args:
        net: the net: forward operators, gradients and updates.
        filled: the blobs that the init net writes, among which are those that are updated; None if it is not known. An
            update is then what depends on a gradient, or is written by an operator that must work in place, as
            AtomicIter must and Relu need not.
    """
    if not computes_gradients(net):
        return None
    effects = analyse(net, Location(net.name or "net"), [])
    losses = find_losses(net)
    backward = _backward(effects, losses)
    updated = _updated(effects, backward | _in_place(net) if filled is None else filled)
    if not updated:
        return None
    written = set(effects.may)
    wanted = [name + suffix for name in updated for suffix in _GRADIENT_SUFFIXES]
    known = {*losses, *updated, *backward}
    metrics = [name for name in unread_outputs(effects) if name not in known]
    return TrainingNet(losses, updated, tuple(name for name in wanted if name in written), tuple(metrics))


def training_outputs(net: NetDef, found: TrainingNet) -> tuple[str, ...]:
    """Return outputs of a training net without the updated blobs: its losses, then the declared ones or the metrics."""
    declared = declared_outputs(net) or found.metrics
    return tuple(name for name in dict.fromkeys((*found.losses, *declared)) if name not in found.updated)


def find_losses(net: NetDef) -> tuple[str, ...]:
    """Return the blobs that gradients start from; empty if there are none.

    Caffe2's AddGradientOperators starts each by a ConstantFill of the shape of the loss, with the value 1.
    """
    written: set[str] = set()
    found: dict[str, None] = {}
    reads = _readers(net.op)
    for op in net.op:
        if _starts_gradient(op) and op.input[0] in written and any(r in reads for r in op.output):
            found[op.input[0]] = None
        written.update(op.output)
    return tuple(found)


def _starts_gradient(op: OperatorDef) -> bool:
    """Whether an operator fills a blob of the shape of another one with a number that is not 0."""
    if op.type != "ConstantFill" or len(op.input) != 1 or len(op.output) != 1 or op.input[0] == op.output[0]:
        return False
    args = OpView(op, 0).args
    try:
        return args.number("value", default=0.0) != 0 and not args.flag("input_as_shape", default=False)
    except ArgumentError:  # reported when the operator is converted
        return False


def _readers(ops: Iterable[OperatorDef]) -> Mapping[str, None]:
    """Return the blobs that gradient operators, or others on gradients' way (Scale, Sum), read as gradients."""
    reads: dict[str, None] = {}
    for op in ops:
        gradient = is_gradient_operator(op.type) or any(name.endswith("_grad") for name in op.output)
        if gradient:
            reads.update(dict.fromkeys(op.input))
    return reads


def _backward(effects: NetEffects, losses: Collection[str]) -> set[str]:
    """Return the blobs that depend on a gradient: those of the backward part and of the updates."""
    found: set[str] = set()
    for proto, op in zip(effects.net.op, effects.ops, strict=True):
        seed = _starts_gradient(proto) and proto.input[0] in losses
        if seed or is_gradient_operator(proto.type) or not found.isdisjoint(op.used):
            found.update(op.changed)
    return found


def _in_place(net: NetDef) -> set[str]:
    """Return the blobs that operators write that must work in place."""
    return {name for op in net.op for name in updated_in_place(op.type, op.input, op.output)}


def _updated(effects: NetEffects, among: Collection[str]) -> tuple[str, ...]:
    """Return those of some blobs that the net reads before it writes them, and writes; objects are left out."""
    objects = final_objects(effects.net).union(objects_of(effects.net))
    return tuple(name for name in effects.found if name in effects.may and name in among and name not in objects)
