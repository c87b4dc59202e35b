"""Einsum: diagonals, sums and transposes of each operand, and products of two at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_backend.emit.shapes import NUMBERS, Part, dim_parts, moved, product, reshaped
from caffe2_backend.emit.value import count, gathered, steps
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import FLOAT, Op

family = Family("einsum")


@dataclass(frozen=True)
class Term:
    """A blob whose axes are named by labels, each once; ``sizes`` are theirs."""

    blob: str
    labels: tuple[str, ...]
    sizes: dict[str, Part]


@family.converts("Einsum")
def einsum(op: Op) -> str:
    for index in range(op.input_count):
        op.require(index, *NUMBERS)
    operands, result = _equation(op, op.text("equation", "").replace(" ", ""))
    terms = [_term(op, index, labels) for index, labels in enumerate(operands)]
    terms = [_without_ones(op, term, terms[:i] + terms[i + 1 :]) for i, term in enumerate(terms)]
    made = _summed(op, terms[0], set(result) | _labels(terms[1:]))
    for i, term in enumerate(terms[1:], 1):
        later = set(result) | _labels(terms[i + 1 :])
        made = _multiplied(op, made, _summed(op, term, later | set(made.labels)), later)
    blob = moved(op, made.blob, [made.labels.index(label) for label in result])
    return op.emit("Copy", blob) if blob in op.inputs else blob


def _equation(op: Op, equation: str) -> tuple[list[list[str]], list[str]]:
    """The labels of the operands and of the result; dims under an ellipsis have their place from its end as label."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != op.input_count:
        op.unsupported(f"{op.input_count} operands for the equation {equation!r}", code="invalid-argument")
    operands = []
    for index, text in enumerate(texts):
        hidden = op.rank(index) - len(text.replace("...", ""))
        if hidden < 0 or ("..." not in text and hidden):
            op.unsupported(f"rank {op.rank(index)} for the term {text!r}", code="invalid-argument")
        operands.append(_spelled(text, hidden))
    widest = max(sum(label.isdigit() for label in labels) for labels in operands)
    if arrow:
        return operands, _spelled(right, widest)
    every = [label for labels in operands for label in labels if not label.isdigit()]
    once = sorted(label for label in set(every) if every.count(label) == 1)
    return operands, [*map(str, range(widest - 1, -1, -1)), *once]


def _spelled(text: str, hidden: int) -> list[str]:
    before, dots, after = text.partition("...")
    return [*before, *([str(i) for i in range(hidden - 1, -1, -1)] if dots else []), *after]


def _labels(terms: Sequence[Term]) -> set[str]:
    return {label for term in terms for label in term.labels}


def _term(op: Op, index: int, labels: list[str]) -> Term:
    """An operand, of labels that stand twice the diagonal."""
    blob, parts = op.input(index), dim_parts(op, index)
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        order = [first, second, *(i for i in range(len(labels)) if i not in (first, second))]
        labels, parts = [labels[i] for i in order[1:]], [parts[i] for i in order]
        size = count(op, parts[0])
        rows = reshaped(op, moved(op, blob, order), [product(op, parts[:2]), *parts[2:]])
        blob, parts = gathered(op, rows, 0, steps(op, size) * (size + 1)), parts[1:]
    return Term(blob, tuple(labels), dict(zip(labels, parts, strict=True)))


def _without_ones(op: Op, term: Term, others: Sequence[Term]) -> Term:
    """The term without axes of one entry that another operand has too: they broadcast."""
    ones = [label for label in term.labels if term.sizes[label] == 1 and any(label in o.labels for o in others)]
    wide = [label for label in ones if any(other.sizes.get(label, 1) != 1 for other in others)]
    if not wide:
        return term
    blob = op.emit("Squeeze", term.blob, dims=[term.labels.index(label) for label in wide])
    labels = tuple(label for label in term.labels if label not in wide)
    return Term(blob, labels, {label: term.sizes[label] for label in labels})


def _summed(op: Op, term: Term, kept: set[str]) -> Term:
    axes = [i for i, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    labels = tuple(label for label in term.labels if label in kept)
    blob = op.emit("ReduceSum", term.blob, axes=axes, keepdims=0)
    return Term(blob, labels, {label: term.sizes[label] for label in labels})


def _multiplied(op: Op, a: Term, b: Term, kept: set[str]) -> Term:
    """The product, summed over what is not kept: a matrix product of floats, else product by product."""
    sizes = {**b.sizes, **a.sizes}
    both = [label for label in a.labels if label in b.labels]
    batch, inner = [label for label in both if label in kept], [label for label in both if label not in kept]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]

    def part(labels: Sequence[str]) -> Part:
        return product(op, [sizes[label] for label in labels])

    def arranged(term: Term, labels: list[str], shape: list[Part]) -> str:
        return reshaped(op, moved(op, term.blob, [term.labels.index(label) for label in labels]), shape)

    outer = [sizes[label] for label in batch]
    labels = [*batch, *rows, *columns]
    if inner and op.dtype() == FLOAT:
        left = arranged(a, [*batch, *rows, *inner], [*outer, part(rows), part(inner)])
        right = arranged(b, [*batch, *inner, *columns], [*outer, part(inner), part(columns)])
        made = op.emit("BatchMatMul", left, right)
    else:
        left = arranged(a, [*batch, *rows, *inner], [*outer, part(rows), 1, part(inner)])
        right = arranged(b, [*batch, *columns, *inner], [*outer, 1, part(columns), part(inner)])
        made = op.emit("Mul", left, right)
        made = op.emit("ReduceSum", made, axes=[len(batch) + 2], keepdims=0)
    shaped = reshaped(op, made, [sizes[label] for label in labels])
    return Term(shaped, tuple(labels), {label: sizes[label] for label in labels})
