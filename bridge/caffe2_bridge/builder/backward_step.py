"""Build the backward step net of a RecurrentNetwork, and the arguments that link it.

The backward step computes, from the gradients of a step's outputs, those of its inputs. The gradients of the states are
rows of blobs ``<states>_grad``: a step reads row t + 1 and adds its contribution to row t. So where the cell's gradient
writes a blob that also gets a gradient from outside, it writes ``<blob>_accum`` instead, and a Sum adds the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import count
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
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from caffe2_bridge.ssa import get_ssa, get_undefined_blobs

_NET_NAME: Final = "RecurrentBackwardStep"
_GRAD: Final = "_grad"


def backward_arguments(
    recurrence: Recurrence, outputs_with_grads: tuple[int, ...], recomputed: Collection[str]
) -> dict[str, Any]:
    """Return the arguments of a RecurrentNetwork that define its gradient.

    Args:
        recurrence: the cell net and its links.
        outputs_with_grads: indices of the outputs that receive a gradient.
        recomputed: blobs of the cell that the backward pass recomputes instead of storing them.

    Raises:
        BuildError: the cell cannot be differentiated.
    """
    cell = recurrence.cell
    made = _backward_pass(recurrence)
    names = _dense(cell, made.gradients)
    step = [*_recomputed_operators(cell, frozenset(recomputed)), *made.operators]
    written = {name for op in step for name in op.output}

    carriers = _Carriers([*cell.op, *step], (state.cell_output + _GRAD for state in recurrence.states))
    links: list[Link] = []
    for state in recurrence.states:
        rows = state.rows + _GRAD
        own = state.cell_input + _GRAD
        # If no operator writes the gradient under its own name, link the blob that holds it instead: this avoids a
        # copy per step.
        carrier = carriers.take(own if own in written else _gradient(cell, names, state.cell_input), own)
        links += [Link(state.cell_output + _GRAD, rows, 1), Link(carrier, rows, 0)]
    links += [
        Link(carriers.take(_gradient(cell, names, row), row + _GRAD), sequence + _GRAD, 0)
        for row, sequence in recurrence.inputs
    ]
    learned = [name for name in recurrence.references if name in names]
    param_grads = [carriers.take(names[name], name + _GRAD) for name in learned]

    external = (
        *_saved_blobs(cell, step),
        *(state.cell_output + _GRAD for state in recurrence.states),
        *cell.external_input,
        *cell.external_output,
    )
    operands = recurrence.operands
    net = None
    if step or carriers.copies:
        operators = [*_accumulate(step, frozenset(external)), *carriers.copies]
        net = NetDef(name=_NET_NAME, type="simple", op=operators, external_input=dict.fromkeys(external))
    return control.backward_arguments(
        net,
        links,
        [operands.index(name) for name in learned],
        outputs_with_grads=list(outputs_with_grads),
        recompute_blobs_on_backward=list(dict.fromkeys(map(str, recomputed))),
        param_grads=param_grads,
    )


class _Carriers:
    """The blobs of a backward step that are linked, or summed over the steps: each for one purpose alone.

    A blob is linked by letting it share the memory of the row: of several links of one blob the last wins, and a blob
    that is summed over the steps is renamed. So where a gradient serves several purposes, because operators pass it
    through, every further one gets a copy. Real Caffe2's helper links it several times: the gradients are wrong.

    Attributes:
        copies: the operators that copy, at the end of the step.
    """

    def __init__(self, step: Iterable[OperatorDef], given: Iterable[str]) -> None:
        self.copies: list[OperatorDef] = []
        self._used = set(given)
        self._devices: dict[str, DeviceOption] = {}
        self._names = set(self._used)
        for op in step:
            self._names.update((*op.input, *op.output))
            if op.HasField("device_option"):
                self._devices.update(dict.fromkeys(op.output, op.device_option))

    def take(self, gradient: str, name: str) -> str:
        """Return the blob that carries a gradient for one more purpose: itself, or a copy, named ``name`` if it can."""
        if gradient not in self._used:
            self._used.add(gradient)
            return gradient
        candidates = (name if number == 0 else f"{name}_{number}" for number in count())
        target = next(candidate for candidate in candidates if candidate not in self._names)
        self._names.add(target)
        self._used.add(target)
        copy = OperatorDef(type="Copy", input=[gradient], output=[target])
        if gradient in self._devices:
            copy.device_option.CopyFrom(self._devices[gradient])
        self.copies.append(copy)
        return target


def _backward_pass(recurrence: Recurrence) -> GradientOperators:
    """Differentiate the cell, given the gradients ``<output>_grad``.

    Operators of the cell that read an output contribute to its gradient. As in Caffe2, their contribution replaces the
    given gradient, and ``_accumulate`` adds the given one to it later. This fails if no operator writes the
    contribution because a Sum passes its own gradient through, such as in a residual connection between layers: real
    Caffe2 loses the gradient of the next step. In that case, the two are summed before they are read.
    """
    cell = recurrence.cell
    try:
        made = get_backward_pass(cell.op, {name: name + _GRAD for name in cell.external_output})
        outputs = [state.cell_output for state in recurrence.states]
        if all(made.gradients.get(name) == name + _GRAD for name in outputs):
            return made
        net, gradients = add_gradient_operators(NetDef(op=cell.op), {name: name + _GRAD for name in outputs})
    except GradientError as error:
        reason = f"{cell.name or 'cell net'} cannot be differentiated: {error}; pass forward_only to omit its gradient"
        raise BuildError(reason) from error
    return GradientOperators(list(net.op[len(cell.op) :]), gradients)


def _dense(cell: NetDef, gradients: Mapping[str, str | SparseGradient | None]) -> dict[str, str]:
    """Return the gradient of each blob. Raises BuildError for a sparse one, which a step cannot sum."""
    for name, gradient in gradients.items():
        if isinstance(gradient, SparseGradient):
            raise BuildError(f"{cell.name or 'cell net'}: the gradient of {name!r} must be dense, not sparse")
    return {name: str(gradient) for name, gradient in gradients.items() if gradient is not None}


def _gradient(cell: NetDef, gradients: Mapping[str, str], name: str) -> str:
    if name not in gradients:
        raise BuildError(f"{cell.name or 'cell net'}: {name!r} has no gradient; pass forward_only to build without one")
    return gradients[name]


def _recomputed_operators(cell: NetDef, recomputed: frozenset[str]) -> Iterable[OperatorDef]:
    """Yield the operators that write the blobs to recompute, in forward order."""
    for index, op in enumerate(cell.op):
        if recomputed.isdisjoint(op.output):
            continue
        others = [name for name in op.output if name not in recomputed]
        if others:
            location = f"{cell.name or 'cell net'}[{index}] {op.type}"
            raise BuildError(f"{location} also writes {', '.join(map(repr, others))}, which must be recomputed too")
        yield op


def _saved_blobs(cell: NetDef, step: Iterable[OperatorDef]) -> list[str]:
    """Return the blobs of the forward step that the backward step reads, other than the cell's outputs."""
    undefined = get_undefined_blobs(get_ssa(NetDef(op=step))[0])
    _, versions = get_ssa(cell)
    outputs = set(cell.external_output)
    return [name for name, version in versions.items() if version and name in undefined and name not in outputs]


def _accumulate(step: Iterable[OperatorDef], external: frozenset[str]) -> Iterable[OperatorDef]:
    """Add each output that also gets a gradient from outside to that gradient.

    An operator that works in place on such a blob has included it already.
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
