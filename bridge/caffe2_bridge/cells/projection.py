"""The input of a recognized cell, and its projection to the gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic

from caffe2_bridge.cells.algebra import V
from caffe2_bridge.cells.match import Cell, Columns, NoMatchError


@dataclass(frozen=True)
class Projection(Generic[V]):
    """The input of a cell, X [T, N, I], and its projection to the gates.

    Attributes:
        sequences: X is their sum: values, or rows that stand for the outputs of other cells, which come first.
        columns: the columns of the weight matrix of each gate; None if the gates add X itself: the matrix is then the
            identity.
        biases: the biases of each gate.
    """

    sequences: tuple[V, ...]
    columns: tuple[Columns[V], ...] | None
    biases: tuple[tuple[Columns[V], ...], ...]


@dataclass(frozen=True)
class Hoisted(Generic[V]):
    """What a sequence is that was projected before the loop: the product of ``operand`` and ``matrix``, and a bias."""

    operand: V
    matrix: V
    bias: V | None


def find_projection(
    cell: Cell[V], sequences: Mapping[V, V], hoisted: Callable[[V], Hoisted[V] | None]
) -> Projection[V]:
    """Return the common input of the gates. Raises NoMatchError if they have different inputs.

    Args:
        cell: the cell.
        sequences: the sequence that each row is of.
        hoisted: finds the product that made a sequence; None where the gates must read the sequence itself.
    """
    gates = cell.gates
    biases = tuple(gate.biases for gate in gates)
    if all(len(gate.inputs) == 1 and not gate.rows for gate in gates):
        operands = {gate.inputs[0][0] for gate in gates}
        if len(operands) == 1:
            rows = sorted(operands.pop(), key=str)
            columns = tuple(gate.inputs[0][1] for gate in gates)
            return Projection(tuple(sequences.get(row, row) for row in rows), columns, biases)
    elif all(len(gate.rows) == 1 and not gate.inputs for gate in gates):
        values = {gate.rows[0].value for gate in gates}
        if len(values) == 1:
            row = values.pop()
            return _unhoisted(cell, sequences.get(row, row), biases, hoisted)
    raise NoMatchError("the gates must read one sequence in the same way")


def _unhoisted(
    cell: Cell[V],
    sequence: V,
    biases: tuple[tuple[Columns[V], ...], ...],
    hoisted: Callable[[V], Hoisted[V] | None],
) -> Projection[V]:
    """Undo the hoisting of the product of the input out of the loop; without one the sequence itself is read."""
    parts = [gate.rows[0].part for gate in cell.gates]
    product = hoisted(sequence)
    if product is None:
        if any(end - start != Fraction(1, len(parts)) for start, end in parts):
            raise NoMatchError("the gates must use equal parts of the input that neither overlap nor omit elements")
        return Projection((sequence,), None, biases)
    if product.bias is not None:
        bias = product.bias
        biases = tuple((*own, Columns(bias, part)) for own, part in zip(biases, parts, strict=True))
    return Projection((product.operand,), tuple(Columns(product.matrix, part) for part in parts), biases)
