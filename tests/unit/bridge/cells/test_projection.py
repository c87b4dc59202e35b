"""The common input of the gates of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from caffe2_bridge.cells.algebra import WHOLE, Part
from caffe2_bridge.cells.match import Affine, Cell, Columns, Masking, NoMatchError
from caffe2_bridge.cells.projection import Hoisted, find_projection

THIRDS: Sequence[Part] = [(Fraction(k, 3), Fraction(k + 1, 3)) for k in range(3)]


def adding(*parts: Part) -> Cell[str]:
    """Return a cell whose gates add parts of the row ``x_t``."""
    gates = [Affine(Columns("r", WHOLE), (Columns("x_t", part),), (), (Columns("b", part),)) for part in parts]
    return Cell("GRU", (0,), tuple(gates), Masking(), "h_row")


def multiplying(*rows: frozenset[str]) -> Cell[str]:
    """Return a cell whose gates multiply sums of rows."""
    gates = [Affine(Columns("r", WHOLE), (), ((row, Columns("w", WHOLE)),), ()) for row in rows]
    return Cell("GRU", (0,), tuple(gates), Masking(), "h_row")


def nothing(_: str) -> None:
    return None


def test_a_sequence_that_a_product_made_is_read_before_it() -> None:
    found = find_projection(adding(*THIRDS), {"x_t": "projected"}, {"projected": Hoisted("x", "w", "c")}.get)
    assert found.sequences == ("x",)
    assert found.columns == tuple(Columns("w", part) for part in THIRDS)
    assert found.biases == tuple((Columns("b", part), Columns("c", part)) for part in THIRDS)


def test_another_sequence_is_read_in_equal_parts() -> None:
    found = find_projection(adding(*reversed(THIRDS)), {"x_t": "x"}, nothing)
    assert (found.sequences, found.columns) == (("x",), None)
    with pytest.raises(NoMatchError, match="equal parts"):
        find_projection(adding((Fraction(0), Fraction(1, 2)), *THIRDS[1:]), {}, nothing)


def test_gates_that_multiply_read_one_sum_of_rows() -> None:
    both = frozenset({"x_t", "below"})
    assert find_projection(multiplying(both, both), {"x_t": "x"}, nothing).sequences == ("below", "x")
    with pytest.raises(NoMatchError, match="in the same way"):
        find_projection(multiplying(both, frozenset({"x_t"})), {}, nothing)
