"""Differentiate one operator, and locate where its gradient writes the gradient of each input.

Two operands of one name have different gradients, and an output that overwrites an input hides it. So the operator is
differentiated with marked names: the i-th input, if it occurred before, gets the suffix NUL i, and an output that is
also an input the suffix NUL y. The marks are removed from the gradient operators afterwards, except from gradients of
inputs, which keep them until their terms are summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.control import control_class
from caffe2_bridge.gradients.accumulate import Source, Term, term_of
from caffe2_bridge.gradients.forward import MARK, BlobGradient, Differentiate, SparseGradient, plain
from caffe2_bridge.gradients.rename import rename_output
from caffe2_bridge.gradients.versions import ForwardStep
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_OUTPUT_MARK: Final = f"{MARK}y"


def names_of(gradient: BlobGradient) -> tuple[str, ...]:
    """Return the names of the blobs of a gradient: none, one or two."""
    if gradient is None:
        return ()
    return (gradient,) if isinstance(gradient, str) else tuple(gradient)


@dataclass(slots=True)
class LocatedGradient:
    """The gradient of one operator, and where it is computed.

    Attributes:
        operators: the gradient operators.
        g_input: the gradient of each input.
        sources: by name, where each gradient of an input is written last.
        stale: the (operator, operand) indices that read an input that the forward operator has overwritten.
    """

    operators: list[OperatorDef]
    g_input: list[BlobGradient]
    sources: dict[str, Source]
    stale: set[tuple[int, int]]

    @classmethod
    def of(cls, step: ForwardStep, g_output: Sequence[BlobGradient], differentiate: Differentiate) -> LocatedGradient:
        """Differentiate an operator."""
        operator = control_class(step.op)
        # The bodies of these operators refer to operands by name, and are checked on their own.
        dispatches = operator is not None and not operator.computes
        op = step.op if dispatches else _with_marks(step)
        operators, g_input = differentiate(op, g_output)
        wanted = {name for gradient in g_input for name in names_of(gradient)}
        sources = {}
        for at, gradient_op in enumerate(operators):
            for output, name in enumerate(gradient_op.output):
                if name in wanted:
                    sources[name] = Source(name, plain(name), operators, at, output)
        if op is step.op:
            return cls(operators, list(g_input), sources, set())
        both = step.reads.keys() & step.writes.keys()
        stale = {
            (at, position)
            for at, gradient_op in enumerate(operators)
            for position, name in enumerate(gradient_op.input)
            if not name.endswith(_OUTPUT_MARK) and plain(name) in both
        }
        for gradient_op in operators:
            for names in (gradient_op.input, gradient_op.output):
                names[:] = [name if name in sources else plain(name) for name in names]
        g_input = [
            _rename(gradient, {name: plain(name) for name in names_of(gradient) if name not in sources})
            for gradient in g_input
        ]
        return cls(operators, g_input, sources, stale)

    def rename(self, name: str, new: str) -> None:
        """Rename a blob at its last write in the group and in all later reads."""
        at, output = max((at, i) for at, op in enumerate(self.operators) for i, n in enumerate(op.output) if n == name)
        rename_output(self.operators, at, output, new)
        if name in self.sources:
            source = self.sources.pop(name)
            source.name = source.plain = new
            self.sources[new] = source
            self.g_input = [_rename(gradient, {name: new}) for gradient in self.g_input]

    def terms(self, step: ForwardStep) -> Iterator[tuple[str, Term]]:
        """Yield the terms of the inputs in the order in which they are computed; those passed through are last."""
        found = []
        for position, gradient in enumerate(self.g_input):
            if gradient is None:
                continue
            parts = [self.sources.get(name) or Source(name, plain(name)) for name in names_of(gradient)]
            computed = [part for part in parts if part.computed]
            if computed:
                device = self.operators[computed[0].at].device_option
                order = (0, min((part.at, part.output) for part in computed))
            else:
                device = step.op.device_option
                order = (1, (position, 0))
            found.append((order, step.inputs[position], term_of(parts, device)))
        for _, blob, term in sorted(found, key=lambda item: item[0]):
            yield blob, term


def _with_marks(step: ForwardStep) -> OperatorDef:
    """Return the operator with marked names; itself if no operand needs a mark."""
    first = {name: i for i, name in reversed(list(enumerate(step.inputs)))}
    inputs = [name if first[name] == i else f"{name}{MARK}{i}" for i, name in enumerate(step.inputs)]
    outputs = [f"{n}{_OUTPUT_MARK}" if n in step.reads else n for n in step.outputs]
    if inputs == step.inputs and outputs == step.outputs:
        return step.op
    marked = OperatorDef()
    marked.CopyFrom(step.op)
    marked.input[:] = inputs
    marked.output[:] = outputs
    return marked


def _rename(gradient: BlobGradient, new: dict[str, str]) -> BlobGradient:
    if gradient is None or isinstance(gradient, str):
        return new.get(gradient, gradient) if gradient else gradient
    return SparseGradient(*(new.get(name, name) for name in gradient))
