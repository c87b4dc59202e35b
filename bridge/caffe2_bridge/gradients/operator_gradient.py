"""The gradient of one operator, with where each part of it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from caffe2_bridge.control import control_class
from caffe2_bridge.gradients.accumulate import Source, Term, term_of
from caffe2_bridge.gradients.forward import MARK, BlobGradient, Differentiate, SparseGradient, plain
from caffe2_bridge.gradients.rename import rename_output
from caffe2_bridge.gradients.versions import Step
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef

_OUTPUT_MARK: Final = f"{MARK}y"


def names_of(gradient: BlobGradient) -> tuple[str, ...]:
    """The blobs that a gradient consists of."""
    if gradient is None:
        return ()
    return (gradient,) if isinstance(gradient, str) else tuple(gradient)


@dataclass(slots=True)
class Made:
    """Operators, the gradient of each input, and by its name where the group writes each of these gradients last.

    ``stale`` are the (operator, operand) that read an input over which the forward operator has written its output.
    """

    operators: list[OperatorDef]
    g_input: list[BlobGradient]
    sources: dict[str, Source]
    stale: set[tuple[int, int]]

    @classmethod
    def of(cls, step: Step, g_output: Sequence[BlobGradient], differentiate: Differentiate) -> Made:
        """Make the gradient of an operator."""
        operator = control_class(step.op)
        # Bodies that use the operands' names have them too, and are checked on their own.
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
        """Rename a blob where the group has written it, and behind that."""
        at, output = max((at, i) for at, op in enumerate(self.operators) for i, n in enumerate(op.output) if n == name)
        rename_output(self.operators, at, output, new)
        if name in self.sources:
            source = self.sources.pop(name)
            source.name = source.plain = new
            self.sources[new] = source
            self.g_input = [_rename(gradient, {name: new}) for gradient in self.g_input]

    def terms(self, step: Step) -> Iterator[tuple[str, Term]]:
        """The gradients of blobs in the order in which they are computed, behind them those handed on."""
        found = []
        for position, gradient in enumerate(self.g_input):
            if gradient is None:
                continue
            parts = [self.sources.get(name) or Source(name, plain(name)) for name in names_of(gradient)]
            made = [part for part in parts if part.made]
            if made:
                device = self.operators[made[0].at].device_option
                order = (0, min((part.at, part.output) for part in made))
            else:
                device = step.op.device_option
                order = (1, (position, 0))
            found.append((order, step.inputs[position], term_of(parts, device)))
        for _, blob, term in sorted(found, key=lambda entry: entry[0]):
            yield blob, term


def _with_marks(step: Step) -> OperatorDef:
    """The operator with marks on inputs that occur again, and on outputs that are inputs; itself if none does."""
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
