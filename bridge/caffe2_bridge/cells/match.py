"""Recognition of LSTM, GRU and RNN cells by what a step net computes.

The formulas are those of the ONNX operators: for LSTM ``c' = f * c + i * g`` and ``h' = o * tanh(c')``; for GRU
``h' = (1 - z) * n + z * h``; for RNN ``h' = f(a)``; each gate is a function of an affine map of h and of the input.

The step net is given as polynomials in a normal form (:mod:`.algebra`), so a cell is matched by its terms and not by
its operators. The match is exact: it proves that the fused operator computes the step net in real arithmetic, and every
deviation raises NoMatchError. What reads a step net, from Caffe2's operators or from ONNX's, gives its
:class:`Equations`. The steps of a match:

1. Choose states that depend on no others, two for an LSTM or one for a GRU or RNN, in every order (:func:`_lowest`).
2. Assume the sequence mask to be 1 to get the state equations of a step within the sequence, and to be 0 to see what
   rows past their length do: keep their states or reset them (:func:`_unmasked`).
3. Match the terms of the state equations with the cell's formula, which gives the operand of each gate.
4. Read each operand as an affine map (:func:`_affine`): one product of h with a matrix, products of input rows, rows
   that are added directly, and biases.
5. Replace the cell's output h' by a new leaf where the remaining equations multiply it by a matrix. A stack of cells
   so becomes a sequence of single cells, each of which reads the outputs of those below as input rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final, Generic, Literal

from caffe2_bridge.cells.algebra import (
    ZERO,
    Algebra,
    Atom,
    Function,
    Leaf,
    Mask,
    Part,
    Polynomial,
    Product,
    TooComplexError,
    V,
)

Kind = Literal["LSTM", "GRU", "RNN"]

_ACTIVATIONS: Final = ("Tanh", "Relu", "Sigmoid")


@dataclass(frozen=True)
class Equations(Generic[V]):
    """What a step computes.

    Attributes:
        algebra: that of the polynomials.
        states: the states before the step, all [N, D].
        after: the states after it; None where the step does more than arithmetic of a cell.
        rows: the rows of sequences, which gates may read; the outputs of matched cells are added.
        is_vector: whether an outer value is a vector of features, as biases are.
        row_of: makes what stands for the row of a state after the step.
    """

    algebra: Algebra[V]
    states: Sequence[V]
    after: Sequence[Polynomial | None]
    rows: set[V]
    is_vector: Callable[[V], bool]
    row_of: Callable[[V], V]


@dataclass(frozen=True)
class Columns(Generic[V]):
    """A range of columns of a matrix, or of elements of a vector."""

    value: V
    part: Part


@dataclass(frozen=True)
class Affine(Generic[V]):
    """The affine map ``recurrent^T h + input^T x + biases + constant``.

    Attributes:
        recurrent: the matrix that h is multiplied by.
        rows: parts of the input rows that are added without a matrix, since the product was computed before the loop.
        inputs: products with an input: the rows whose sum is multiplied, and the matrix.
        biases: vectors that are added.
        constant: a number that is added.
        recurrent_biases: vectors that are added to the recurrent product before the reset gate multiplies it.
    """

    recurrent: Columns[V]
    rows: tuple[Columns[V], ...]
    inputs: tuple[tuple[frozenset[V], Columns[V]], ...]
    biases: tuple[Columns[V], ...]
    constant: float = 0.0
    recurrent_biases: tuple[Columns[V], ...] = ()


@dataclass(frozen=True)
class Masking(Generic[V]):
    """What rows past their length do: keep their states, or with ``drop`` reset them. Without lengths, no row is."""

    lengths: V | None = None
    drop: bool = False


@dataclass(frozen=True)
class Cell(Generic[V]):
    """A recognized cell.

    Attributes:
        kind: the ONNX operator.
        states: the indices of h (and c) among the states of the body.
        gates: in ONNX's order: i, o, f, c for LSTM; z, r, h for GRU.
        masking: what rows past their length do.
        output: a placeholder for the row of h, which cells above read.
        activation: the function of an RNN.
        linear_before_reset: whether a GRU multiplies by the reset gate after the recurrent product.
    """

    kind: Kind
    states: tuple[int, ...]
    gates: tuple[Affine[V], ...]
    masking: Masking[V]
    output: V
    activation: str = "Tanh"
    linear_before_reset: bool = False

    @property
    def lengths(self) -> V | None:
        """The sequence lengths, if the cell masks its states."""
        return self.masking.lengths

    @property
    def drop(self) -> bool:
        """Whether rows past their length reset their states to zero instead of keeping them."""
        return self.masking.drop


class NoMatchError(Exception):
    """The body does not compute an LSTM, GRU or RNN. The message says where it differs."""


def match_cells(step: Equations[V]) -> tuple[Cell[V], ...]:
    """Return the cells that the body is a stack of; each reads rows of sequences and outputs of the cells before it.

    Raises NoMatchError where the body computes anything else.
    """
    after: dict[int, Polynomial] = {}
    for i, polynomial in enumerate(step.after):
        if polynomial is None:
            raise NoMatchError("the step net computes more than gates of sigmoids, tanhs and matrix products")
        after[i] = polynomial
    cells: list[Cell[V]] = []
    while after:
        cell = _lowest(step, after)
        output = after[cell.states[0]]
        for i in cell.states:
            del after[i]
        after = dict(zip(after, step.algebra.within_products(after.values(), output, cell.output), strict=True))
        step.rows.add(cell.output)
        cells.append(cell)
    return tuple(cells)


def _lowest(step: Equations[V], after: Mapping[int, Polynomial]) -> Cell[V]:
    """Match a cell whose states depend on no other states. Raises NoMatchError with the first reason if none does."""
    reasons, states = [], set(step.states)
    read = {i: step.algebra.leaves(polynomial) & states for i, polynomial in after.items()}
    for count, matchers in ((2, (_lstm,)), (1, (_gru, _rnn))):
        for order in permutations(after, count):
            own = {step.states[i] for i in order}
            used = set().union(*(read[i] for i in order))
            if used - own or (count == 2 and used != own):
                continue
            for matcher in matchers:
                try:
                    return matcher(step, order, [after[i] for i in order])
                except (NoMatchError, TooComplexError) as error:
                    reasons.append(str(error) or "the step net is too complex")
    raise NoMatchError(
        reasons[0] if reasons else f"{len(after)} states depend on one another unlike the states of an LSTM, GRU or RNN"
    )


def _lstm(step: Equations[V], order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell[V]:
    h, c = (step.algebra.of(Leaf(step.states[i])) for i in order)
    (new_h, new_c), masking = _unmasked(step, after, (h, c))
    # c' = f * c + i * g has two terms, h' = o * tanh(c') has one; all with the factor 1.
    if len(new_c) != 2 or len(new_h) != 1 or any(factor != 1.0 for _, factor in (*new_c, *new_h)):
        raise NoMatchError("the cell state is not a sum of two products, unlike that of an LSTM")
    forget = next((_gate([f], "Sigmoid") for f in _others(step, new_c, c)), None)
    product = next((atoms for atoms in _products(step, new_c) if not _contains(step, atoms, c)), None)
    if forget is None or product is None:
        raise NoMatchError("the cell state has no term of a forget gate times the cell state")
    update, candidate = _gate(product, "Sigmoid"), _gate(product, "Tanh")
    output_atoms = _products(step, new_h)[0]
    output = _gate(output_atoms, "Sigmoid")
    squashed = _gate(output_atoms, "Tanh")
    if None in (update, candidate, output) or squashed != new_c or len(product) != 2 or len(output_atoms) != 2:
        raise NoMatchError("the hidden state is not an output gate times tanh of the cell state")
    gates = tuple(_affine(step, gate, h) for gate in (update, output, forget, candidate) if gate is not None)
    return Cell("LSTM", order, gates, masking, step.row_of(step.states[order[0]]))


def _gru(step: Equations[V], order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell[V]:
    (h,) = (step.algebra.of(Leaf(step.states[i])) for i in order)
    (new_h,), masking = _unmasked(step, after, (h,))
    for atoms in _products(step, new_h):
        update = _gate(atoms, "Sigmoid") if _contains(step, atoms, h) and len(atoms) == 2 else None
        if update is None:
            continue
        # z * h is one of the terms, so z is the candidate for the update gate. h' = (1 - z) * n + z * h expands to
        # z * h + n - z * n: the term of a single factor is n, and the sum must be exactly that.
        z = step.algebra.of(Function("Sigmoid", update))
        for (candidate_atom,) in (a for a in _products(step, new_h) if len(a) == 1):
            candidate = step.algebra.of(candidate_atom)
            expected = step.algebra.add(
                step.algebra.multiply(z, h),
                candidate,
                step.algebra.scale(step.algebra.multiply(z, candidate), -1.0),
            )
            if new_h == expected and isinstance(candidate_atom, Function) and candidate_atom.name == "Tanh":
                reset, inner, before = _candidate(step, candidate_atom.operand, h)
                gates = (_affine(step, update, h), _affine(step, reset, h), inner)
                return Cell(
                    "GRU", order, gates, masking, step.row_of(step.states[order[0]]), linear_before_reset=before
                )
    raise NoMatchError("the state is not a mix of itself and a candidate, unlike that of a GRU")


def _rnn(step: Equations[V], order: tuple[int, ...], after: Sequence[Polynomial]) -> Cell[V]:
    (h,) = (step.algebra.of(Leaf(step.states[i])) for i in order)
    (new_h,), masking = _unmasked(step, after, (h,))
    products = _products(step, new_h)
    if len(products) == 1 and len(products[0]) == 1 and new_h[0][1] == 1.0:
        atom = products[0][0]
        if isinstance(atom, Function) and atom.name in _ACTIVATIONS:
            return Cell(
                "RNN",
                order,
                (_affine(step, atom.operand, h),),
                masking,
                step.row_of(step.states[order[0]]),
                activation=atom.name,
            )
    raise NoMatchError("the state is not tanh, relu or sigmoid of an affine map")


def _unmasked(
    step: Equations[V], after: Sequence[Polynomial], before: Sequence[Polynomial]
) -> tuple[list[Polynomial], Masking[V]]:
    """Return states after a step in the sequence, and what rows past their length do.

    Raises NoMatchError where rows past their length do anything but keep or reset all states.
    """
    masks = step.algebra.masks(*after)
    if not masks:
        return list(after), Masking()
    if len(masks) > 1:
        raise NoMatchError("the step net compares the step with several lengths")
    mask: Mask[V] = next(iter(masks))
    past = step.algebra.assuming(after, mask, 0.0)
    if past == list(before):
        drop = False
    elif all(polynomial == ZERO for polynomial in past):
        drop = True
    else:
        raise NoMatchError("rows past their length neither keep their states nor reset them")
    return step.algebra.assuming(after, mask, 1.0), Masking(mask.lengths, drop)


def _products(step: Equations[V], polynomial: Polynomial) -> list[list[Atom[V]]]:
    """Return the factors of each term."""
    return [step.algebra.factors(monomial) for monomial, _ in polynomial]


def _contains(step: Equations[V], atoms: Sequence[Atom[Any]], state: Polynomial) -> bool:
    return any(step.algebra.of(atom) == state for atom in atoms)


def _others(step: Equations[V], polynomial: Polynomial, state: Polynomial) -> list[Atom[V]]:
    """Return the other factor of each term that is the state times one other factor."""
    return [
        atom
        for (monomial, factor) in polynomial
        for atom in step.algebra.factors(monomial)
        if factor == 1.0
        and len(monomial) == 2
        and _contains(step, step.algebra.factors(monomial), state)
        and step.algebra.of(atom) != state
    ]


def _gate(atoms: Sequence[Atom[Any]], function: str) -> Polynomial | None:
    """Return the operand of the one function of that name among the factors."""
    found = [atom.operand for atom in atoms if isinstance(atom, Function) and atom.name == function]
    return found[0] if len(found) == 1 else None


def _affine(step: Equations[V], polynomial: Polynomial, h: Polynomial) -> Affine[V]:
    """Return the operand of a gate as an affine map of h and of the rows of the sequences.

    Each term must be a single atom with the factor 1: a product of h, a product of input rows, (part of) an input row,
    or a bias vector. Raises NoMatchError otherwise.
    """
    recurrent, rows, inputs, biases, constant = [], [], [], [], 0.0
    for monomial, factor in polynomial:
        atoms = step.algebra.factors(monomial)
        if not atoms:
            constant += factor
            continue
        atom = atoms[0]
        if len(atoms) > 1 or factor != 1.0:
            raise NoMatchError("a gate is not an affine map of the state and the input")
        if isinstance(atom, Product) and atom.operand == h:
            recurrent.append(Columns(atom.matrix, atom.part))
        elif isinstance(atom, Product):
            inputs.append((_row(step, atom.operand), Columns(atom.matrix, atom.part)))
        elif isinstance(atom, Leaf) and atom.value in step.rows:
            rows.append(Columns(atom.value, atom.part))
        elif isinstance(atom, Leaf) and step.is_vector(atom.value):
            biases.append(Columns(atom.value, atom.part))
        else:
            raise NoMatchError("a gate adds something other than the state, the input and biases")
    if len(recurrent) != 1:
        raise NoMatchError(f"a gate has {len(recurrent)} products with the state instead of one")
    return Affine(recurrent[0], tuple(rows), tuple(inputs), tuple(biases), constant)


def _row(step: Equations[V], polynomial: Polynomial) -> frozenset[V]:
    """Return the rows whose sum is the operand of a product. Raises NoMatchError where it is anything else."""
    rows = set()
    for monomial, factor in polynomial:
        atoms = step.algebra.factors(monomial)
        atom = atoms[0] if len(atoms) == 1 and factor == 1.0 else None
        if not isinstance(atom, Leaf) or atom.value not in step.rows or atom != Leaf(atom.value):
            raise NoMatchError("a gate multiplies something other than the state and rows of the input")
        rows.add(atom.value)
    return frozenset(rows)


def _candidate(step: Equations[V], polynomial: Polynomial, h: Polynomial) -> tuple[Polynomial, Affine[V], bool]:
    """Return the operand of a GRU's candidate: the reset gate's operand, the affine map, and ``linear_before_reset``.

    There are two forms. Reset before the product: one term is ``R^T (r * h)``, a product whose operand is a sigmoid
    times h. Product before the reset: some terms are r times an atom; without r, these atoms must be an affine map of h
    alone. In both forms the remaining terms are the input's part of the map.
    """
    algebra = step.algebra
    gated: list[tuple[Function, Atom[V]]] = []
    plain: list[tuple[tuple[int, ...], float]] = []
    reset: Polynomial | None = None
    for monomial, factor in polynomial:
        atoms = algebra.factors(monomial)
        gates = [atom for atom in atoms if isinstance(atom, Function) and atom.name == "Sigmoid"]
        if len(atoms) == 2 and len(gates) == 1 and factor == 1.0:
            gated.append((gates[0], next(atom for atom in atoms if atom is not gates[0])))
        elif len(atoms) == 1 and isinstance(atoms[0], Product) and _contains_gate(step, atoms[0], h) is not None:
            reset = _contains_gate(step, atoms[0], h)
            plain += algebra.of(Product(h, atoms[0].matrix, atoms[0].part))
        else:
            plain.append((monomial, factor))
    if reset is not None and not gated:
        return reset, _affine(step, algebra.add(tuple(plain)), h), False
    if reset is not None or not gated or len({gate for gate, _ in gated}) != 1:
        raise NoMatchError("the candidate of the GRU has no reset gate")
    inside = algebra.add(*(algebra.of(atom) for _, atom in gated))
    inner = _affine(step, inside, h)
    if inner.rows or inner.inputs:
        raise NoMatchError("the reset gate also scales the input")
    product = algebra.of(Product(h, inner.recurrent.value, inner.recurrent.part))
    outer = _affine(step, algebra.add(tuple(plain), product), h)
    affine = Affine(inner.recurrent, outer.rows, outer.inputs, outer.biases, outer.constant, inner.biases)
    return gated[0][0].operand, affine, True


def _contains_gate(step: Equations[V], product: Product[V], h: Polynomial) -> Polynomial | None:
    """Return the operand of the gate g if the operand of the product is ``g * h``, else None."""
    if len(product.operand) != 1 or product.operand[0][1] != 1.0:
        return None
    atoms = step.algebra.factors(product.operand[0][0])
    if len(atoms) != 2 or not _contains(step, atoms, h):
        return None
    return _gate(atoms, "Sigmoid")
