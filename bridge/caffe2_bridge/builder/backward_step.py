"""The backward step net of a recurrent net, and the arguments that put it into place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from caffe2_bridge import control
from caffe2_bridge.builder.cell_net import Recurrence
from caffe2_bridge.control import Link
from caffe2_bridge.diagnostics import BuildError
from caffe2_bridge.gradients import (
    GradientError,
    GradientOperators,
    SparseGradient,
    add_gradient_operators,
    get_backward_pass,
)
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import get_ssa, get_undefined_blobs

_NET_NAME: Final = "RecurrentBackwardStep"
_GRAD: Final = "_grad"


def backward_arguments(
    recurrence: Recurrence, outputs_with_grads: tuple[int, ...], recomputed: Collection[str]
) -> dict[str, Any]:
    """What a RecurrentNetwork operator says about its gradient. Raises BuildError."""
    cell = recurrence.cell
    made = _backward_pass(recurrence)
    names = _dense(cell, made.gradients)
    step = [*_recomputing(cell, frozenset(recomputed)), *made.operators]
    written = {name for op in step for name in op.output}

    links: list[Link] = []
    for state in recurrence.states:
        rows = state.rows + _GRAD
        own = state.cell_input + _GRAD
        # Where nothing writes a gradient of the cell input's own, the blob that is its gradient is a view of the
        # states' gradient: no copy of it a step.
        carrier = own if own in written else _gradient(cell, names, state.cell_input)
        links += [Link(state.cell_output + _GRAD, rows, 1), Link(carrier, rows, 0)]
    links += [Link(_gradient(cell, names, row), sequence + _GRAD, 0) for row, sequence in recurrence.inputs]

    external = (
        *_kept(cell, step),
        *(state.cell_output + _GRAD for state in recurrence.states),
        *cell.external_input,
        *cell.external_output,
    )
    learned = [name for name in recurrence.references if name in names]
    operands = recurrence.operands
    net = None
    if step:
        accumulated = list(_accumulated(step, frozenset(external)))
        net = NetDef(name=_NET_NAME, type="simple", op=accumulated, external_input=dict.fromkeys(external))
    return control.backward_arguments(
        net,
        links,
        [operands.index(name) for name in learned],
        outputs_with_grads=list(outputs_with_grads),
        recompute_blobs_on_backward=list(dict.fromkeys(map(str, recomputed))),
        param_grads=[names[name] for name in learned],
    )


def _backward_pass(recurrence: Recurrence) -> GradientOperators:
    """The gradient of the cell, from gradients ``<output>_grad`` that are there.

    Operators that read an output contribute to its gradient; what they write is added to what is there later on. Where
    nothing writes the contribution (a Sum hands its own gradient on), it would take the place of what is there: then
    the two are added up before they are used. Real Caffe2 loses the gradient of the next step in that case, as where a
    layer's output is added to that of its neighbour.
    """
    cell = recurrence.cell
    try:
        made = get_backward_pass(cell.op, {name: name + _GRAD for name in cell.external_output})
        outputs = [state.cell_output for state in recurrence.states]
        if all(made.gradients.get(name) == name + _GRAD for name in outputs):
            return made
        net, gradients = add_gradient_operators(NetDef(op=cell.op), {name: name + _GRAD for name in outputs})
    except GradientError as error:
        reason = f"{cell.name or 'cell net'} has no backward step: {error}; forward_only builds the net without one"
        raise BuildError(reason) from error
    return GradientOperators(list(net.op[len(cell.op) :]), gradients)


def _dense(cell: NetDef, gradients: Mapping[str, str | SparseGradient | None]) -> dict[str, str]:
    """Gradients by blob. A step adds up dense gradients only."""
    for name, gradient in gradients.items():
        if isinstance(gradient, SparseGradient):
            raise BuildError(f"{cell.name or 'cell net'}: the gradient of {name!r} is sparse, which no step can add up")
    return {name: str(gradient) for name, gradient in gradients.items() if gradient is not None}


def _gradient(cell: NetDef, gradients: Mapping[str, str], name: str) -> str:
    if name not in gradients:
        raise BuildError(f"{cell.name or 'cell net'}: {name!r} gets no gradient; build the net with forward_only")
    return gradients[name]


def _recomputing(cell: NetDef, recomputed: frozenset[str]) -> Iterable[OperatorDef]:
    """The operators that write what is to be computed again, in forward order."""
    for index, op in enumerate(cell.op):
        if recomputed.isdisjoint(op.output):
            continue
        others = [name for name in op.output if name not in recomputed]
        if others:
            place = f"{cell.name or 'cell net'}[{index}] {op.type}"
            raise BuildError(f"{place} writes {', '.join(map(repr, others))} too, which is not to be recomputed")
        yield op


def _kept(cell: NetDef, step: Iterable[OperatorDef]) -> list[str]:
    """Blobs of the forward step that the backward step reads, beside the cell's outputs."""
    undefined = get_undefined_blobs(get_ssa(NetDef(op=step))[0])
    _, versions = get_ssa(cell)
    outputs = set(cell.external_output)
    return [name for name, version in versions.items() if version and name in undefined and name not in outputs]


def _accumulated(step: Iterable[OperatorDef], external: frozenset[str]) -> Iterable[OperatorDef]:
    """The operators, each of whose outputs that also gets a gradient from outside is added to that one.

    An operator that works in place on such a blob has added to it already.
    """
    for op in step:
        shared = [index for index, name in enumerate(op.output) if name in external and name not in op.input]
        own = OperatorDef()
        own.CopyFrom(op)
        sums = []
        for index in shared:
            name = op.output[index]
            own.output[index] = f"{name}_accum"
            sums.append(OperatorDef(type="Sum", input=[name, own.output[index]], output=[name]))
        yield own
        yield from sums
