"""Einsum: diagonals, sums and transposes of each operand, and products of two operands at a time.

Each operand is a term whose axes have labels, each once. Labels that no later operand and not the result has are summed
away as early as possible. Dims under an ellipsis are labelled by their distance from its end, so that they broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caffe2_backend.emit.selection import gather, transpose
from caffe2_backend.emit.shapes import Size, arange, dims_of, product, reshape
from caffe2_backend.lowering.family import Family
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import NUMBERS
from caffe2_backend.lowering.value import Value
from caffe2_frontend.interop.types import FLOAT

family = Family("einsum")


@dataclass(frozen=True)
class Term:
    """A value whose axes have labels, each once, and the sizes of these."""

    value: Value
    labels: tuple[str, ...]
    sizes: dict[str, Value]


@family.converts("Einsum")
def einsum(op: Op) -> Value:
    """``Einsum(*operands; equation) -> Y``: BatchMatMul of floats, else Mul and ReduceSum, and transposes."""
    operands = [op.require(value, *NUMBERS) for value in op.inputs]
    labels, result = _parse(op, operands, op.args.text("equation", default="").replace(" ", ""))
    terms = [_term(op, value, own) for value, own in zip(operands, labels, strict=True)]
    terms = [_drop_ones(op, term, terms[:i] + terms[i + 1 :]) for i, term in enumerate(terms)]
    made = _sum(op, terms[0], set(result) | _labels(terms[1:]))
    for i, term in enumerate(terms[1:], 1):
        later = set(result) | _labels(terms[i + 1 :])
        made = _multiply(op, made, _sum(op, term, later | set(made.labels)), later)
    y = transpose(op, made.value, [made.labels.index(label) for label in result])
    return op.emit("Copy", y) if any(y is value for value in operands) else y


def _parse(op: Op, operands: Sequence[Value], equation: str) -> tuple[list[list[str]], list[str]]:
    """Return the labels of the operands and of the result of an equation such as ``ij,jk->ik`` or ``...ij->...ji``."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(operands):
        reason = f"the equation {equation!r} has {len(texts)} terms for {len(operands)} operands"
        op.unsupported(reason, code="invalid-argument")
    labels = []
    for value, text in zip(operands, texts, strict=True):
        hidden = op.rank(value) - len(text.replace("...", ""))
        if hidden < 0 or ("..." not in text and hidden):
            op.unsupported(
                f"the term {text!r} does not fit an operand of rank {op.rank(value)}", code="invalid-argument"
            )
        labels.append(_split(text, hidden))
    widest = max(sum(label.isdigit() for label in own) for own in labels)
    if arrow:
        return labels, _split(right, widest)
    # Without an arrow the result has the ellipsis, then the labels that are given once, in alphabetical order.
    every = [label for own in labels for label in own if not label.isdigit()]
    once = sorted(label for label in set(every) if every.count(label) == 1)
    return labels, [*map(str, range(widest - 1, -1, -1)), *once]


def _split(text: str, hidden: int) -> list[str]:
    """Return the labels of a term whose ellipsis stands for ``hidden`` dims."""
    before, dots, after = text.partition("...")
    return [*before, *([str(i) for i in range(hidden - 1, -1, -1)] if dots else []), *after]


def _labels(terms: Sequence[Term]) -> set[str]:
    return {label for term in terms for label in term.labels}


def _term(op: Op, value: Value, labels: list[str]) -> Term:
    """Return an operand as a term. Of two axes with one label, of size n, the diagonal is taken.

    Both axes are moved to the front and flattened; the diagonal is then at the indices i * (n + 1).
    """
    dims = dims_of(op, value)
    while len(set(labels)) < len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        order = [first, second, *(i for i in range(len(labels)) if i not in (first, second))]
        labels, dims = [labels[i] for i in order[1:]], [dims[i] for i in order]
        rows = reshape(op, transpose(op, value, order), [product(op, dims[:2]), *dims[2:]])
        value, dims = gather(op, rows, 0, arange(op, dims[0]) * (dims[0] + 1)), dims[1:]
    return Term(value, tuple(labels), dict(zip(labels, dims, strict=True)))


def _drop_ones(op: Op, term: Term, others: Sequence[Term]) -> Term:
    """Return the term without axes of size 1 whose label has another size in another term: they broadcast."""
    ones = [label for label in term.labels if term.sizes[label].integer == 1]
    wide = [label for label in ones if any(label in o.labels and o.sizes[label].integer != 1 for o in others)]
    if not wide:
        return term
    value = op.emit("Squeeze", term.value, dims=[term.labels.index(label) for label in wide])
    return _relabeled(value, term, [label for label in term.labels if label not in wide])


def _relabeled(value: Value, term: Term, labels: Sequence[str]) -> Term:
    return Term(value, tuple(labels), {label: term.sizes[label] for label in labels})


def _sum(op: Op, term: Term, kept: set[str]) -> Term:
    """Return the term, summed over the labels that are not kept."""
    axes = [i for i, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    value = op.emit("ReduceSum", term.value, axes=axes, keepdims=0)
    return _relabeled(value, term, [label for label in term.labels if label in kept])


def _multiply(op: Op, a: Term, b: Term, kept: set[str]) -> Term:
    """Return the product of two terms, summed over what is not kept.

    Labels of both terms are batch axes where they are kept, else inner axes; those of one term are rows or columns. The
    product is [batch..., rows, inner] times [batch..., inner, columns].
    """
    sizes = {**b.sizes, **a.sizes}
    both = [label for label in a.labels if label in b.labels]
    batch, inner = [label for label in both if label in kept], [label for label in both if label not in kept]
    rows = [label for label in a.labels if label not in both]
    columns = [label for label in b.labels if label not in both]

    def size(labels: Sequence[str]) -> Value:
        return product(op, [sizes[label] for label in labels])

    def arranged(term: Term, labels: list[str], shape: list[Size]) -> Value:
        return reshape(op, transpose(op, term.value, [term.labels.index(label) for label in labels]), shape)

    outer = [sizes[label] for label in batch]
    labels = [*batch, *rows, *columns]
    if inner and a.value.dtype == FLOAT:
        left = arranged(a, [*batch, *rows, *inner], [*outer, size(rows), size(inner)])
        right = arranged(b, [*batch, *inner, *columns], [*outer, size(inner), size(columns)])
        made = op.emit("BatchMatMul", left, right)
    else:
        left = arranged(a, [*batch, *rows, *inner], [*outer, size(rows), 1, size(inner)])
        right = arranged(b, [*batch, *columns, *inner], [*outer, 1, size(columns), size(inner)])
        made = op.emit("ReduceSum", left * right, axes=[len(batch) + 2], keepdims=0)
    shaped = reshape(op, made, [sizes[label] for label in labels])
    return Term(shaped, tuple(labels), {label: sizes[label] for label in labels})
