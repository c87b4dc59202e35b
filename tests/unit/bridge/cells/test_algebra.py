"""Laws of the normal form: equal computations are equal polynomials."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caffe2_bridge.cells.algebra import (
    WHOLE,
    ZERO,
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

VALUES = ("x", "y", "z", "w", "v", "lengths", "other")
FIRST: Part = (Fraction(0), Fraction(1, 2))
SECOND: Part = (Fraction(1, 2), Fraction(1))
QUARTERS: tuple[Part, ...] = tuple((Fraction(k, 4), Fraction(k + 1, 4)) for k in range(4))


def leaf(algebra: Algebra, name: str) -> Polynomial:
    return algebra.of(Leaf(name))


def mask(algebra: Algebra, name: str = "lengths") -> Polynomial:
    return algebra.of(Mask(name))


# A polynomial as a recipe: nested tuples, built by ``made``.
RECIPES = st.recursive(
    st.sampled_from(["x", "y", "mask", "tanh x"]) | st.integers(-3, 3).map(float),
    lambda inner: st.tuples(st.sampled_from("+*"), inner, inner),
    max_leaves=4,
)


def made(algebra: Algebra, recipe: object) -> Polynomial:
    match recipe:
        case float():
            return algebra.constant(recipe)
        case "mask":
            return mask(algebra)
        case "tanh x":
            return algebra.of(Function("Tanh", leaf(algebra, "x")))
        case str():
            return leaf(algebra, recipe)
        case ("+", left, right):
            return algebra.add(made(algebra, left), made(algebra, right))
        case ("*", left, right):
            return algebra.multiply(made(algebra, left), made(algebra, right))
    raise AssertionError(recipe)


@given(RECIPES, RECIPES, RECIPES)
def test_sums_and_products_are_those_of_a_ring(a: object, b: object, c: object) -> None:
    algebra = Algebra()
    x, y, z = (made(algebra, recipe) for recipe in (a, b, c))
    add, multiply = algebra.add, algebra.multiply
    assert add(x, y) == add(y, x)
    assert multiply(x, y) == multiply(y, x)
    assert add(add(x, y), z) == add(x, add(y, z)) == add(x, y, z)
    assert multiply(multiply(x, y), z) == multiply(x, multiply(y, z))
    assert multiply(add(x, y), z) == add(multiply(x, z), multiply(y, z))
    assert add(x, ZERO) == multiply(x, algebra.constant(1)) == x
    assert multiply(x, ZERO) == add(x, algebra.scale(x, -1)) == ZERO


@given(RECIPES, RECIPES)
def test_where_and_mask_arithmetic_are_one(a: object, b: object) -> None:
    algebra = Algebra()
    x, y, m = made(algebra, a), made(algebra, b), mask(algebra)
    chosen = algebra.choose(m, x, y)
    assert chosen == algebra.add(algebra.multiply(x, m), algebra.multiply(y, algebra.complement(m)))
    assert chosen == algebra.choose(algebra.complement(m), y, x)
    assert algebra.choose(m, x, x) == x
    assert algebra.choose(m, chosen, y) == chosen
    assert algebra.choose(m, x, ZERO) == algebra.multiply(m, x)


@given(RECIPES, st.sampled_from([0.0, 1.0]))
def test_assuming_a_mask_is_to_replace_it(recipe: object, value: float) -> None:
    algebra = Algebra()
    polynomial = made(algebra, recipe)
    (result,) = algebra.assuming([polynomial], Mask("lengths"), value)
    assert algebra.masks(result) == set()
    other = algebra.choose(mask(algebra), polynomial, algebra.constant(7))
    (chosen,) = algebra.assuming([other], Mask("lengths"), value)
    assert chosen == (result if value else algebra.constant(7))


def test_a_mask_is_its_own_square_and_others_are_not() -> None:
    algebra = Algebra()
    m, x = mask(algebra), leaf(algebra, "x")
    assert algebra.multiply(m, m) == m
    assert algebra.multiply(m, algebra.complement(m)) == ZERO
    assert algebra.multiply(x, x) != x
    assert algebra.multiply(m, mask(algebra, "other")) != m


def test_masks_are_found_and_replaced_at_any_depth() -> None:
    algebra = Algebra()
    kept = algebra.multiply(mask(algebra), leaf(algebra, "x"))
    deep = algebra.of(Product(algebra.of(Function("Tanh", kept)), "w"))
    both = algebra.of(Pieces((deep, mask(algebra, "other"))))
    assert algebra.masks(both) == {Mask("lengths"), Mask("other")}
    (past,) = algebra.assuming([deep], Mask("lengths"), 0.0)
    assert past == algebra.of(Product(algebra.of(Function("Tanh", ZERO)), "w"))


def test_atoms_with_other_operands_differ() -> None:
    algebra = Algebra()
    x, y = leaf(algebra, "x"), leaf(algebra, "y")
    assert algebra.of(Function("Tanh", x)) == algebra.of(Function("Tanh", x))
    assert algebra.of(Function("Tanh", x)) != algebra.of(Function("Sigmoid", x))
    assert algebra.of(Function("Tanh", x)) != algebra.of(Function("Tanh", y))
    assert algebra.of(Product(x, "w")) != algebra.of(Product(x, "v"))


def test_parts_reach_leaves_functions_and_the_columns_of_products() -> None:
    algebra = Algebra()
    x = leaf(algebra, "x")
    assert algebra.part(x, WHOLE) == x
    assert algebra.part(x, FIRST) == algebra.of(Leaf("x", FIRST))
    product = algebra.of(Product(x, "w"))
    assert algebra.part(product, SECOND) == algebra.of(Product(x, "w", SECOND))
    tanh = algebra.of(Function("Tanh", algebra.add(x, product)))
    inside = algebra.add(algebra.part(x, FIRST), algebra.part(product, FIRST))
    assert algebra.part(tanh, FIRST) == algebra.of(Function("Tanh", inside))
    assert algebra.part(mask(algebra), FIRST) == mask(algebra)
    assert algebra.part(algebra.constant(2), FIRST) == algebra.constant(2)


@pytest.mark.parametrize("k", range(4))
def test_a_half_of_a_half_is_a_quarter(k: int) -> None:
    algebra = Algebra()
    x = algebra.of(Product(leaf(algebra, "x"), "w"))
    half = algebra.part(x, (FIRST, SECOND)[k // 2])
    assert algebra.part(half, (FIRST, SECOND)[k % 2]) == algebra.part(x, QUARTERS[k])


def test_parts_of_pieces_are_the_pieces() -> None:
    algebra = Algebra()
    pieces = tuple(algebra.of(Function("Tanh", leaf(algebra, name))) for name in "xyzw")
    joined = algebra.of(Pieces(pieces))
    assert tuple(algebra.part(joined, part) for part in QUARTERS) == pieces
    with pytest.raises(TooComplexError):
        algebra.part(joined, FIRST)
    with pytest.raises(TooComplexError):
        algebra.part(joined, (Fraction(1, 8), Fraction(3, 8)))


def test_a_product_distributes_over_parts() -> None:
    algebra = Algebra()
    x, y = leaf(algebra, "x"), leaf(algebra, "y")
    product = algebra.part(algebra.multiply(x, y), SECOND)
    assert product == algebra.multiply(algebra.part(x, SECOND), algebra.part(y, SECOND))


def test_growth_ends() -> None:
    algebra = Algebra()
    terms = [algebra.of(Leaf(f"v{k}")) for k in range(65)]
    algebra.add(*terms[:64])
    with pytest.raises(TooComplexError):
        algebra.add(*terms)
    with pytest.raises(TooComplexError):
        algebra.multiply(algebra.add(*terms[:9]), algebra.add(*terms[9:18]))
