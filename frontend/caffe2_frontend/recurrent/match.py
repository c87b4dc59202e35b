"""Recurrent cells recognised by what they compute: LSTM, GRU and RNN as ONNX defines them.

The formulas are those of the ONNX operators: for LSTM ``c' = f * c + i * g`` and ``h' = o * tanh(c')``; for GRU
``h' = (1 - z) * n + z * h``; for RNN ``h' = f(a)``; each gate a function of an affine map of h and of the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Literal

import onnx_ir as ir

from caffe2_frontend.lowering.op import Value
from caffe2_frontend.recurrent.algebra import (
    ZERO,
    Atom,
    Function,
    Leaf,
    Mask,
    Part,
    Polynomial,
    Product,
    TooComplexError,
)
from caffe2_frontend.recurrent.interpret import Reading

Kind = Literal["LSTM", "GRU", "RNN"]

_ACTIVATIONS: Final = ("Tanh", "Relu", "Sigmoid")


@dataclass(frozen=True)
class Columns:
    """Some columns of a matrix, or some elements of a vector."""

    value: Value
    part: Part


@dataclass(frozen=True)
class Affine:
    """``recurrent^T h + input^T x + biases + constant``.

    ``rows`` is what the input adds as it is, instead of through a matrix: part of a row of a sequence. ``inputs`` are
    products: of a sum of rows, with a matrix.
    ``recurrent_biases`` stand beside the recurrent product where it is multiplied by a gate.
    """

    recurrent: Columns
    rows: tuple[Columns, ...]
    inputs: tuple[tuple[frozenset[Value], Columns], ...]
    biases: tuple[Columns, ...]
    constant: float = 0.0
    recurrent_biases: tuple[Columns, ...] = ()


@dataclass(frozen=True)
class Cell:
    """A recognised cell.

    ``states`` are the positions, among the body's, of h (and c). ``gates`` are in ONNX's order: i, o, f, c for LSTM;
    z, r, h for GRU. ``drop``: rows past their length have zero states instead of keeping them. ``output`` stands for a
    row of h where cells above read it.
    """

    kind: Kind
    states: tuple[int, ...]
    gates: tuple[Affine, ...]
    lengths: Value | None
    output: Value
    drop: bool = False
    activation: str = "Tanh"
    linear_before_reset: bool = False


class NoMatchError(Exception):
    """The body is another computation; says where it differs."""


def match_cells(reading: Reading) -> tuple[Cell, ...]:
    """The cells that the body is made of, one above the other: each reads rows of sequences and the cells before it.

    Raises NoMatchError where it is anything else.
    """
    after: dict[int, Polynomial] = {}
    for i, value in enumerate(reading.body.after):
        term = reading.terms.get(value)
        if term is None:
            raise NoMatchError("the step net computes more than gates of sigmoids, tanhs and matrix products")
        after[i] = term.polynomial
    cells: list[Cell] = []
    while after:
        cell = _lowest(reading, after)
        output = after[cell.states[0]]
        for i in cell.states:
            del after[i]
        after = {i: reading.algebra.within_products(p, output, cell.output) for i, p in after.items()}
        reading.rows.add(cell.output)
        cells.append(cell)
    return tuple(cells)


def _lowest(reading: Reading, after: Mapping[int, Polynomial]) -> Cell:
    """A cell whose states depend on no other states."""
    reasons = []
    for count, matchers in ((2, (_lstm,)), (1, (_gru, _rnn))):
        for order in permutations(after, count):
            own = {reading.body.states[i] for i in order}
            used = reading.algebra.leaves(*(after[i] for i in order)) & set(reading.body.states)
            if used - own or (count == 2 and used != own):
                continue
            for matcher in matchers:
                try:
                    return matcher(reading, order, [after[i] for i in order])
                except (NoMatchError, TooComplexError) as error:
                    reasons.append(str(error) or "the step net is too complex")
    raise NoMatchError(
        reasons[0] if reasons else f"{len(after)} states depend on one another as no LSTM's, GRU's or RNN's do"
    )


def _lstm(reading: Reading, order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell:
    h, c = (reading.algebra.of(Leaf(reading.body.states[i])) for i in order)
    (new_h, new_c), lengths, drop = _unmasked(reading, after, (h, c))
    if len(new_c) != 2 or len(new_h) != 1 or any(factor != 1.0 for _, factor in (*new_c, *new_h)):
        raise NoMatchError("the cell state is no sum of two products, as an LSTM's is")
    forget = next((_gate([f], "Sigmoid") for f in _others(reading, new_c, c)), None)
    product = next((atoms for atoms in _products(reading, new_c) if not _contains(reading, atoms, c)), None)
    if forget is None or product is None:
        raise NoMatchError("no forget gate times the cell state")
    update, candidate = _gate(product, "Sigmoid"), _gate(product, "Tanh")
    output_atoms = _products(reading, new_h)[0]
    output = _gate(output_atoms, "Sigmoid")
    squashed = _gate(output_atoms, "Tanh")
    if None in (update, candidate, output) or squashed != new_c or len(product) != 2 or len(output_atoms) != 2:
        raise NoMatchError("the hidden state is no output gate times tanh of the cell state")
    gates = tuple(_affine(reading, gate, h) for gate in (update, output, forget, candidate) if gate is not None)
    return Cell("LSTM", order, gates, lengths, _output(reading, order), drop)


def _gru(reading: Reading, order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell:
    (h,) = (reading.algebra.of(Leaf(reading.body.states[i])) for i in order)
    (new_h,), lengths, drop = _unmasked(reading, after, (h,))
    for atoms in _products(reading, new_h):
        update = _gate(atoms, "Sigmoid") if _contains(reading, atoms, h) and len(atoms) == 2 else None
        if update is None:
            continue
        z = reading.algebra.of(Function("Sigmoid", update))
        for (candidate_atom,) in (a for a in _products(reading, new_h) if len(a) == 1):
            candidate = reading.algebra.of(candidate_atom)
            expected = reading.algebra.add(
                reading.algebra.multiply(z, h),
                candidate,
                reading.algebra.scale(reading.algebra.multiply(z, candidate), -1.0),
            )
            if new_h == expected and isinstance(candidate_atom, Function) and candidate_atom.name == "Tanh":
                reset, inner, before = _candidate(reading, candidate_atom.operand, h)
                gates = (_affine(reading, update, h), _affine(reading, reset, h), inner)
                return Cell("GRU", order, gates, lengths, _output(reading, order), drop, linear_before_reset=before)
    raise NoMatchError("the state is no mix of itself and a candidate, as a GRU's is")


def _rnn(reading: Reading, order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell:
    (h,) = (reading.algebra.of(Leaf(reading.body.states[i])) for i in order)
    (new_h,), lengths, drop = _unmasked(reading, after, (h,))
    products = _products(reading, new_h)
    if len(products) == 1 and len(products[0]) == 1 and new_h[0][1] == 1.0:
        atom = products[0][0]
        if isinstance(atom, Function) and atom.name in _ACTIVATIONS:
            return Cell(
                "RNN",
                order,
                (_affine(reading, atom.operand, h),),
                lengths,
                _output(reading, order),
                drop,
                activation=atom.name,
            )
    raise NoMatchError("the state is no tanh, relu or sigmoid of an affine map")


def _output(reading: Reading, order: tuple[int, ...]) -> Value:
    """A name for the rows of h, to be read by other cells."""
    state = reading.body.states[order[0]]
    return ir.Value(name=f"{state.name}_row", type=state.type, shape=ir.Shape([None, None]))


def _unmasked(
    reading: Reading, after: Sequence[Polynomial], before: Sequence[Polynomial]
) -> tuple[list[Polynomial], Value | None, bool]:
    """The states after a step of a row that has one; the lengths; whether other rows drop their states."""
    masks = reading.algebra.masks(*after)
    if not masks:
        return list(after), None, False
    if len(masks) > 1:
        raise NoMatchError("the step net compares with several lengths")
    mask: Mask = next(iter(masks))
    past = [reading.algebra.assuming(polynomial, mask, 0.0) for polynomial in after]
    if past == list(before):
        drop = False
    elif all(polynomial == ZERO for polynomial in past):
        drop = True
    else:
        raise NoMatchError("rows past their length neither keep their states nor drop them")
    return [reading.algebra.assuming(polynomial, mask, 1.0) for polynomial in after], mask.lengths, drop


def _products(reading: Reading, polynomial: Polynomial) -> list[list[Atom]]:
    """The factors of each term."""
    return [reading.algebra.factors(monomial) for monomial, _ in polynomial]


def _contains(reading: Reading, atoms: Sequence[Atom], state: Polynomial) -> bool:
    return any(reading.algebra.of(atom) == state for atom in atoms)


def _others(reading: Reading, polynomial: Polynomial, state: Polynomial) -> list[Atom]:
    """The factor beside the state, in the terms of two factors that have it, if they are taken once."""
    return [
        atom
        for (monomial, factor) in polynomial
        for atom in reading.algebra.factors(monomial)
        if factor == 1.0
        and len(monomial) == 2
        and _contains(reading, reading.algebra.factors(monomial), state)
        and reading.algebra.of(atom) != state
    ]


def _gate(atoms: Sequence[Atom], function: str) -> Polynomial | None:
    """The operand of the one function of that name among the factors."""
    found = [atom.operand for atom in atoms if isinstance(atom, Function) and atom.name == function]
    return found[0] if len(found) == 1 else None


def _affine(reading: Reading, polynomial: Polynomial, h: Polynomial) -> Affine:
    """The gate's operand as an affine map of h and of the rows of the sequences."""
    recurrent, rows, inputs, biases, constant = [], [], [], [], 0.0
    for monomial, factor in polynomial:
        atoms = reading.algebra.factors(monomial)
        if not atoms:
            constant += factor
            continue
        atom = atoms[0]
        if len(atoms) > 1 or factor != 1.0:
            raise NoMatchError("a gate is no affine map of the state and the input")
        if isinstance(atom, Product) and atom.operand == h:
            recurrent.append(Columns(atom.matrix, atom.part))
        elif isinstance(atom, Product):
            inputs.append((_row(reading, atom.operand), Columns(atom.matrix, atom.part)))
        elif isinstance(atom, Leaf) and atom.value in reading.rows:
            rows.append(Columns(atom.value, atom.part))
        elif isinstance(atom, Leaf) and atom.value.shape is not None and len(atom.value.shape) == 1:
            biases.append(Columns(atom.value, atom.part))
        else:
            raise NoMatchError("a gate adds something that is neither state nor input nor a bias")
    if len(recurrent) != 1:
        raise NoMatchError(f"a gate has {len(recurrent)} products with the state, not one")
    return Affine(recurrent[0], tuple(rows), tuple(inputs), tuple(biases), constant)


def _row(reading: Reading, polynomial: Polynomial) -> frozenset[Value]:
    """The rows that a product's operand is the sum of."""
    rows = set()
    for monomial, factor in polynomial:
        atoms = reading.algebra.factors(monomial)
        atom = atoms[0] if len(atoms) == 1 and factor == 1.0 else None
        if not isinstance(atom, Leaf) or atom.value not in reading.rows or atom != Leaf(atom.value):
            raise NoMatchError("a gate multiplies something that is neither the state nor a row of the input")
        rows.add(atom.value)
    return frozenset(rows)


def _candidate(reading: Reading, polynomial: Polynomial, h: Polynomial) -> tuple[Polynomial, Affine, bool]:
    """A GRU candidate's operand: the reset gate's operand, the affine map, and whether that comes before the reset."""
    algebra = reading.algebra
    gated: list[tuple[Function, Atom]] = []
    plain: list[tuple[tuple[int, ...], float]] = []
    reset: Polynomial | None = None
    for monomial, factor in polynomial:
        atoms = algebra.factors(monomial)
        gates = [atom for atom in atoms if isinstance(atom, Function) and atom.name == "Sigmoid"]
        if len(atoms) == 2 and len(gates) == 1 and factor == 1.0:
            gated.append((gates[0], next(atom for atom in atoms if atom is not gates[0])))
        elif len(atoms) == 1 and isinstance(atoms[0], Product) and _contains_gate(reading, atoms[0], h) is not None:
            reset = _contains_gate(reading, atoms[0], h)
            plain += algebra.of(Product(h, atoms[0].matrix, atoms[0].part))
        else:
            plain.append((monomial, factor))
    if reset is not None and not gated:
        return reset, _affine(reading, algebra.add(tuple(plain)), h), False
    if reset is not None or not gated or len({gate for gate, _ in gated}) != 1:
        raise NoMatchError("the candidate has no reset gate")
    inside = algebra.add(*(algebra.of(atom) for _, atom in gated))
    inner = _affine(reading, inside, h)
    if inner.rows or inner.inputs:
        raise NoMatchError("the reset gate scales the input too")
    product = algebra.of(Product(h, inner.recurrent.value, inner.recurrent.part))
    outer = _affine(reading, algebra.add(tuple(plain), product), h)
    affine = Affine(inner.recurrent, outer.rows, outer.inputs, outer.biases, outer.constant, inner.biases)
    return gated[0][0].operand, affine, True


def _contains_gate(reading: Reading, product: Product, h: Polynomial) -> Polynomial | None:
    """The operand of the gate g where a product's operand is ``g * h``."""
    if len(product.operand) != 1 or product.operand[0][1] != 1.0:
        return None
    atoms = reading.algebra.factors(product.operand[0][0])
    if len(atoms) != 2 or not _contains(reading, atoms, h):
        return None
    return _gate(atoms, "Sigmoid")
