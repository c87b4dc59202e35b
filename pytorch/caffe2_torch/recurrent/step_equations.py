"""Read a step net, operator by operator, as equations of a recurrent cell.

All values are [1, N, D] but those whose layout says otherwise. An operator without a rule, and all that depends on it,
has no polynomial: whether that matters is decided when the states are matched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from caffe2_bridge.cells.algebra import Algebra, Function, Leaf, Mask, Pieces, Polynomial, Product, TooComplexError
from caffe2_bridge.cells.layout import Layout, Term, UnreadableError, join
from caffe2_bridge.cells.match import Equations, NoMatchError
from caffe2_bridge.control import RecurrentSpec
from caffe2_bridge.netdef.unread_arguments import unread_arguments
from caffe2_bridge.netdef.views import NetView, OpView

_ROW: Final = "\0row of "
_VALUE: Final = (2, -1)  # the axis of features


def read_step(spec: RecurrentSpec, ranks: Mapping[str, int]) -> Equations[str]:
    """Return the equations of a step net; values are the names of its blobs.

    Args:
        spec: the recurrent net.
        ranks: of outer blobs, as far as they are known: those of vectors that the step net adds.

    Raises NoMatchError where the loop carries more than one row of each state.
    """
    reason = spec.row_reason
    if reason:
        raise NoMatchError(reason)
    reading = _Reading(spec, ranks)
    for op in NetView(spec.step_net).ops:
        reading.read(op)
    blobs = {state.blob: i for i, state in enumerate(spec.states)}
    written = {blobs[link.external]: link.internal for link in spec.writes()}
    after = [reading.terms.get(written[i]) for i in range(len(blobs))]
    return Equations(
        reading.algebra,
        reading.states,
        [None if term is None or term.layout is not Layout.FULL else term.polynomial for term in after],
        set(reading.rows),
        reading.is_outer,
        lambda state: _ROW + state,
    )


class _Reading:
    """The terms of the blobs of a step net, while its operators are read in order."""

    def __init__(self, spec: RecurrentSpec, ranks: Mapping[str, int]) -> None:
        self.algebra: Algebra[str] = Algebra()
        states = {link.external: link.internal for link in spec.reads()}
        self.states = [states[state.blob] for state in spec.states]
        self.rows = [link.internal for link in spec.reads() if link.internal not in self.states]
        self.terms = {name: Term(self.algebra.of(Leaf(name)), Layout.FULL) for name in (*self.states, *self.rows)}
        self.times = {spec.timestep}
        self._inside = {*spec.written, *self.terms}
        self._ranks = ranks

    def read(self, op: OpView) -> None:
        """Set the terms of the outputs of an operator; without a rule they have none."""
        rule = _RULES.get(op.type)
        terms: Sequence[Term] = ()
        follows = op.type in _COPIES and op.inputs[0] in self.times
        try:
            terms = () if rule is None or follows else rule(self, op)
            if unread_arguments(op).unsupported:
                terms = ()
        except (UnreadableError, TooComplexError):
            pass
        for name in op.outputs:
            self.terms.pop(name, None)
            self.times.discard(name)
        self.terms.update(zip(op.outputs, terms, strict=False))
        if follows:
            self.times.add(op.outputs[0])

    def term(self, name: str) -> Term:
        """Return the term of an operand. Raises UnreadableError where it has none."""
        if name in self.terms:
            return self.terms[name]
        if not self.is_outer(name) or self._ranks.get(name) != 1:
            raise UnreadableError
        return Term(self.algebra.of(Leaf(name)), Layout.FEATURES)

    def full(self, name: str) -> Polynomial:
        """Return the polynomial of an operand [1, N, D]."""
        term = self.term(name)
        if term.layout is not Layout.FULL:
            raise UnreadableError
        return term.polynomial

    def outer(self, name: str) -> str:
        """Return the name of an outer blob. Raises UnreadableError for one of the step."""
        if not self.is_outer(name):
            raise UnreadableError
        return name

    def is_outer(self, name: str) -> bool:
        """Whether a blob is around the operator, and not one of the step."""
        return name not in self._inside and name not in self.times


def _dense(step: _Reading, op: OpView) -> list[Term]:
    x = step.full(op.inputs[0])
    weight, bias = (step.outer(name) for name in op.inputs[1:3])
    if op.args.integer("axis", 1) not in _VALUE or op.args.integer("axis_w", 1) != 1:
        raise UnreadableError
    product = step.algebra.of(Product(x, weight))
    return [Term(step.algebra.add(product, step.algebra.of(Leaf(bias))), Layout.FULL)]


def _sum(step: _Reading, op: OpView) -> list[Term]:
    """Sum has operands of one shape."""
    return [Term(step.algebra.add(*(step.full(name) for name in op.inputs)), Layout.FULL)]


def _operands(step: _Reading, op: OpView) -> tuple[Term, Term, Layout]:
    """Return the operands of an operator that broadcasts the second to the first, or either as NumPy does."""
    a, b = (step.term(name) for name in op.inputs)
    if op.args.flag("broadcast", default=False):
        axis = op.args.integer("axis", -1)
        if "axis_str" in op.args or a.layout is not Layout.FULL:
            raise UnreadableError
        if b.layout is Layout.BATCH and axis == 1:
            b = Term(b.polynomial, Layout.ROWS)
        elif axis != -1 and (b.layout is not Layout.FEATURES or axis not in _VALUE):
            raise UnreadableError
    return a, b, join(a, b)


def _add(step: _Reading, op: OpView) -> list[Term]:
    a, b, layout = _operands(step, op)
    other = step.algebra.scale(b.polynomial, -1.0) if op.type == "Sub" else b.polynomial
    return [Term(step.algebra.add(a.polynomial, other), layout)]


def _multiply(step: _Reading, op: OpView) -> list[Term]:
    a, b, layout = _operands(step, op)
    return [Term(step.algebra.multiply(a.polynomial, b.polynomial), layout)]


def _negate(step: _Reading, op: OpView) -> list[Term]:
    x = step.term(op.inputs[0])
    return [Term(step.algebra.scale(x.polynomial, -1.0), x.layout)]


def _function(step: _Reading, op: OpView) -> list[Term]:
    x = step.term(op.inputs[0])
    return [Term(step.algebra.of(Function(op.type, x.polynomial)), x.layout)]


def _same(step: _Reading, op: OpView) -> list[Term]:
    return [step.term(op.inputs[0])]


def _cast(step: _Reading, op: OpView) -> list[Term]:
    """Take the cast of a mask for the mask; there are no other values in vectors of the batch."""
    x = step.term(op.inputs[0])
    if x.layout is not Layout.BATCH:
        raise UnreadableError
    op.args.ignore("to", "from_type")
    return [x]


def _split(step: _Reading, op: OpView) -> list[Term]:
    x, count = step.full(op.inputs[0]), len(op.outputs)
    sizes = op.args.integers("split", ())
    if len(op.inputs) > 1 or op.args.integer("axis", 1) not in _VALUE or len({*sizes}) > 1:
        raise UnreadableError
    return [Term(part, Layout.FULL) for part in _parts(step, x, count)]


def _parts(step: _Reading, polynomial: Polynomial, count: int) -> list[Polynomial]:
    return [step.algebra.part(polynomial, (Fraction(k, count), Fraction(k + 1, count))) for k in range(count)]


def _concat(step: _Reading, op: OpView) -> list[Term]:
    """Take the pieces to have one width: :func:`..layer.Layer.run` compares those of the gates."""
    pieces = tuple(step.full(name) for name in op.inputs)
    if op.args.integer("axis", 1) not in _VALUE or op.args.flag("add_axis", default=False):
        raise UnreadableError
    return [Term(step.algebra.of(Pieces(pieces)), Layout.FULL)]


def _compare(step: _Reading, op: OpView) -> list[Term]:
    """Read a comparison of the number of the step with the sequence lengths; no other is interpreted."""
    a, b = op.inputs
    kind = op.type
    op.args.ignore("broadcast")
    if a in step.times:
        a, b, kind = b, a, _MIRRORED[kind]
    if b not in step.times or kind not in ("GT", "LE"):
        raise UnreadableError
    return [Term(_mask(step, a, complement=kind == "LE"), Layout.BATCH)]


def _mask(step: _Reading, lengths: str, *, complement: bool = False) -> Polynomial:
    mask = step.algebra.of(Mask(step.outer(lengths)))
    return step.algebra.complement(mask) if complement else mask


def _unit(step: _Reading, op: OpView, states: int, after: Sequence[Polynomial]) -> list[Term]:
    """Mask what a unit computes: its operands are the states, the gates, the lengths if it has any, and the step."""
    if op.inputs[-1] not in step.times:
        raise UnreadableError
    drop = op.args.flag("drop_states", default=False)
    if op.args.flag("sequence_lengths", default=True):
        mask = _mask(step, op.inputs[states + 1])
        before = [() if drop else step.full(name) for name in op.inputs[:states]]
        after = [step.algebra.choose(mask, new, old) for new, old in zip(after, before, strict=True)]
    return [Term(polynomial, Layout.FULL) for polynomial in after]


def _lstm_unit(step: _Reading, op: OpView) -> list[Term]:
    if len(op.inputs) != 4 + op.args.flag("sequence_lengths", default=True):
        raise UnreadableError  # of early 2017
    algebra = step.algebra
    i, f, o, g = _parts(step, step.full(op.inputs[2]), 4)
    f = algebra.add(f, algebra.constant(op.args.number("forget_bias", 0.0)))
    i, f, o = (algebra.of(Function("Sigmoid", gate)) for gate in (i, f, o))
    kept = algebra.multiply(f, step.full(op.inputs[1]))
    cell = algebra.add(kept, algebra.multiply(i, algebra.of(Function("Tanh", g))))
    hidden = algebra.multiply(o, algebra.of(Function("Tanh", cell)))
    return _unit(step, op, 2, [hidden, cell])


def _gru_unit(step: _Reading, op: OpView) -> list[Term]:
    algebra = step.algebra
    _, update, candidate = _parts(step, step.full(op.inputs[1]), 3)
    update, candidate = algebra.of(Function("Sigmoid", update)), algebra.of(Function("Tanh", candidate))
    fresh = algebra.multiply(algebra.complement(update), candidate)
    return _unit(step, op, 1, [algebra.add(algebra.multiply(update, step.full(op.inputs[0])), fresh)])


_COPIES: Final = ("Copy", "CopyFromCPUInput", "StopGradient")
_MIRRORED: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}
_RULES: Final[Mapping[str, Callable[[_Reading, OpView], Sequence[Term]]]] = {
    "Add": _add,
    "Cast": _cast,
    "Concat": _concat,
    "Copy": _same,
    "FC": _dense,
    "GE": _compare,
    "GRUUnit": _gru_unit,
    "GT": _compare,
    "LE": _compare,
    "LSTMUnit": _lstm_unit,
    "LT": _compare,
    "Mul": _multiply,
    "Negative": _negate,
    "Relu": _function,
    "Sigmoid": _function,
    "Split": _split,
    "Sub": _add,
    "Sum": _sum,
    "Tanh": _function,
}
