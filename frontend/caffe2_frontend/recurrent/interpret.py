"""Interpretation of the nodes of a loop's body as polynomials.

The nodes are visited in order; a rule for each operator type computes the polynomials of the outputs from those of the
inputs. Nodes without a rule, and all that depends on them, have no polynomial: whether that matters is decided when the
states are matched. Besides the polynomial, every value has a layout: polynomials do not know broadcasting, and adding
[N] to [N, D] must not be taken for adding [D] to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import onnx_ir as ir

from caffe2_bridge.cells.algebra import (
    Algebra,
    Function,
    Leaf,
    Mask,
    Part,
    Pieces,
    Polynomial,
    Product,
    TooComplexError,
)
from caffe2_bridge.cells.layout import Layout, Term, UnreadableError, join
from caffe2_bridge.cells.match import Equations
from caffe2_frontend.emit.subgraphs import Body
from caffe2_frontend.lowering.op import Op, Value


@dataclass
class Reading:
    """The terms of a body's values.

    Attributes:
        op: the operator under conversion.
        body: the body.
        times: the rows that hold the number of the step.
        algebra: the polynomials of the terms.
        terms: the term of each value that could be interpreted.
    """

    op: Op
    body: Body
    times: frozenset[Value]
    algebra: Algebra[Value] = field(default_factory=Algebra)
    terms: dict[Value, Term] = field(default_factory=dict)

    def read(self) -> None:
        """Interpret all nodes in order. Nodes that are not arithmetic of a cell, and their dependents, get no term."""
        for state in self.body.states:
            self.terms[state] = Term(self.algebra.of(Leaf(state)), Layout.FULL)
        for row in self.body.rows:
            layout = {0: Layout.SCALAR, 1: Layout.BATCH, 2: Layout.FULL}.get(self.op.rank(row))
            if layout is not None:
                self.terms[row] = Term(self.algebra.of(Leaf(row)), layout)
        for node in self.body.op.scope.nodes:
            rule = _RULES.get(node.op_type)
            if rule is None:
                continue
            try:
                terms = rule(self, node)
            except (UnreadableError, TooComplexError):
                continue
            self.terms.update(zip(node.outputs, terms, strict=True))

    def equations(self) -> Equations[Value]:
        """Return what the body computes."""
        after = [self.terms.get(value) for value in self.body.after]
        return Equations(
            self.algebra,
            self.body.states,
            [None if term is None else term.polynomial for term in after],
            set(self.body.rows),
            lambda value: value.shape is not None and len(value.shape) == 1,
            lambda state: ir.Value(name=f"{state.name}_row", type=state.type, shape=ir.Shape([None, None])),
        )

    def term(self, value: Value | None) -> Term:
        """Return the term of an operand; that of an outer value is a leaf. Raises UnreadableError where it has none."""
        if value is None:
            raise UnreadableError
        if value not in self.terms:
            self.terms[value] = self._outer(value)
        return self.terms[value]

    def _outer(self, value: Value) -> Term:
        if self.is_inside(value) or value.shape is None:
            raise UnreadableError
        known = value.const_value
        if known is not None and known.size == 1 and value.dtype is not None and value.dtype.is_floating_point():
            contents = self.body.op.known(value)
            assert contents is not None
            return Term(self.algebra.constant(float(contents.reshape(()))), Layout.SCALAR)
        leaf = self.algebra.of(Leaf(value))
        rank = len(value.shape)
        if rank == 1:
            # Vectors of integers are the sequence lengths, those of floats are biases.
            integers = value.dtype is not None and not value.dtype.is_floating_point()
            return Term(leaf, Layout.BATCH if integers else Layout.FEATURES)
        if rank == 2 or (rank == 3 and value.shape[0] == 1):
            return Term(leaf, Layout.FULL)
        raise UnreadableError

    def is_inside(self, value: Value) -> bool:
        """Whether a value is computed in the body, or is one of its inputs."""
        producer = value.producer()
        return (producer is not None and producer in self._nodes) or value in self._formals

    @property
    def _formals(self) -> tuple[Value, ...]:
        return (*self.body.states, *self.body.rows)

    def __post_init__(self) -> None:
        self._nodes = set(self.body.op.scope.nodes)


def _add(reading: Reading, node: ir.Node) -> list[Term]:
    a, b = (reading.term(value) for value in node.inputs)
    other = reading.algebra.scale(b.polynomial, -1.0) if node.op_type == "Sub" else b.polynomial
    return [Term(reading.algebra.add(a.polynomial, other), join(a, b))]


def _multiply(reading: Reading, node: ir.Node) -> list[Term]:
    a, b = (reading.term(value) for value in node.inputs)
    return [Term(reading.algebra.multiply(a.polynomial, b.polynomial), join(a, b))]


def _negate(reading: Reading, node: ir.Node) -> list[Term]:
    x = reading.term(node.inputs[0])
    return [Term(reading.algebra.scale(x.polynomial, -1.0), x.layout)]


def _function(reading: Reading, node: ir.Node) -> list[Term]:
    x = reading.term(node.inputs[0])
    return [Term(reading.algebra.of(Function(node.op_type, x.polynomial)), x.layout)]


def _same(reading: Reading, node: ir.Node) -> list[Term]:
    return [reading.term(node.inputs[0])]


def _cast(reading: Reading, node: ir.Node) -> list[Term]:
    """Take the cast of a mask to a float for the mask. Other casts round, and are not interpreted."""
    x = reading.term(node.inputs[0])
    source, target = node.inputs[0], node.outputs[0]
    if source is None or source.dtype not in (ir.DataType.BOOL, target.dtype):
        raise UnreadableError
    return [x]


def _matmul(reading: Reading, node: ir.Node) -> list[Term]:
    x, matrix = reading.term(node.inputs[0]), node.inputs[1]
    if x.layout is not Layout.FULL or matrix is None or reading.is_inside(matrix) or reading.op.rank(matrix) != 2:
        raise UnreadableError
    return [Term(reading.algebra.of(Product(x.polynomial, matrix)), Layout.FULL)]


def _single_leaf(reading: Reading, polynomial: Polynomial) -> Leaf[Value] | None:
    if len(polynomial) != 1 or len(polynomial[0][0]) != 1:
        return None
    atom = reading.algebra.atoms[polynomial[0][0][0]]
    return atom if isinstance(atom, Leaf) else None


def _split(reading: Reading, node: ir.Node) -> list[Term]:
    x = reading.term(node.inputs[0])
    count = len(node.outputs)
    if not _last_axis(reading, node, 0) or not _equal_parts(reading, node) or x.layout is Layout.ROWS:
        raise UnreadableError
    parts: list[Part] = [(Fraction(k, count), Fraction(k + 1, count)) for k in range(count)]
    return [Term(reading.algebra.part(x.polynomial, part), x.layout) for part in parts]


def _equal_parts(reading: Reading, node: ir.Node) -> bool:
    sizes = node.inputs[1] if len(node.inputs) > 1 else None
    if sizes is None:
        return True
    known = reading.op.known(sizes)
    return known is not None and len(set(known.tolist())) == 1


def _concat(reading: Reading, node: ir.Node) -> list[Term]:
    terms = [reading.term(value) for value in node.inputs]
    widths = {value.shape[-1] for value in node.inputs if value is not None and value.shape is not None}
    known = {width for width in widths if isinstance(width, int)}
    if not _last_axis(reading, node, -1) or len(known) > 1 or join(*terms) is not Layout.FULL:
        raise UnreadableError
    return [Term(reading.algebra.of(Pieces(tuple(term.polynomial for term in terms))), Layout.FULL)]


def _last_axis(reading: Reading, node: ir.Node, default: int) -> bool:
    axis = node.attributes.get_int("axis", default)
    first = node.inputs[0]
    return first is not None and axis in (-1, reading.op.rank(first) - 1)


def _dims_of_one(reading: Reading, node: ir.Node) -> list[Term]:
    """Read Squeeze and Unsqueeze: leading dims keep the layout; a dim after the batch makes [N] a column [N, 1]."""
    x, axes = reading.term(node.inputs[0]), node.inputs[1] if len(node.inputs) > 1 else None
    known = None if axes is None else reading.op.known(axes)
    if known is None or len(known) != 1:
        raise UnreadableError
    inner = node.inputs[0] if node.op_type == "Squeeze" else node.outputs[0]
    assert inner is not None
    axis = int(known[0]) % reading.op.rank(inner)
    layout = x.layout
    if layout is Layout.BATCH and node.op_type == "Unsqueeze" and axis == reading.op.rank(inner) - 1:
        return [Term(x.polynomial, Layout.ROWS)]
    behind = {Layout.FULL: 2, Layout.ROWS: 2, Layout.BATCH: 1, Layout.FEATURES: 1, Layout.SCALAR: 0}[layout]
    if axis >= reading.op.rank(inner) - behind:
        raise UnreadableError
    return [x]


def _compare(reading: Reading, node: ir.Node) -> list[Term]:
    """Read a comparison of the number of the step with the sequence lengths; no other is interpreted."""
    a, b = (reading.term(value) for value in node.inputs)
    name = node.op_type
    time, lengths, swapped = _single_leaf(reading, a.polynomial), _single_leaf(reading, b.polynomial), False
    if lengths is not None and lengths.value in reading.times:
        time, lengths, swapped = lengths, time, True
    if time is None or lengths is None or time.value not in reading.times or join(a, b) is not Layout.BATCH:
        raise UnreadableError
    if swapped:
        name = _MIRRORED[name]
    mask = reading.algebra.of(Mask(lengths.value))
    if name == "Less":
        return [Term(mask, Layout.BATCH)]
    if name == "GreaterOrEqual":
        return [Term(reading.algebra.complement(mask), Layout.BATCH)]
    raise UnreadableError


def _not(reading: Reading, node: ir.Node) -> list[Term]:
    x = reading.term(node.inputs[0])
    return [Term(reading.algebra.complement(x.polynomial), x.layout)]


def _where(reading: Reading, node: ir.Node) -> list[Term]:
    mask, a, b = (reading.term(value) for value in node.inputs)
    return [Term(reading.algebra.choose(mask.polynomial, a.polynomial, b.polynomial), join(mask, a, b))]


_MIRRORED: Final = {
    "Less": "Greater", "Greater": "Less", "LessOrEqual": "GreaterOrEqual", "GreaterOrEqual": "LessOrEqual",
}  # fmt: skip
_RULES: Final[Mapping[str, Callable[[Reading, ir.Node], Sequence[Term]]]] = {
    "Add": _add,
    "Sub": _add,
    "Mul": _multiply,
    "And": _multiply,
    "Neg": _negate,
    "Sigmoid": _function,
    "Tanh": _function,
    "Relu": _function,
    "Identity": _same,
    "Cast": _cast,
    "MatMul": _matmul,
    "Split": _split,
    "Concat": _concat,
    "Squeeze": _dims_of_one,
    "Unsqueeze": _dims_of_one,
    "Less": _compare,
    "Greater": _compare,
    "LessOrEqual": _compare,
    "GreaterOrEqual": _compare,
    "Not": _not,
    "Where": _where,
}
