"""A normal form for the arithmetic of a step net, in which computations equal in real arithmetic compare equal.

Every value of a body is a polynomial with real coefficients over *atoms*: leaves (states, rows of sequences, outer
values), matrix products with an outer matrix, and functions of polynomials. Atoms are numbered as they are created, and
equal atoms have one number (hash consing). A polynomial is the sorted tuple of its monomials with their coefficients,
so equality of polynomials is equality of tuples.

A mask is an atom that is 0 or 1: its powers are itself, so ``Where(mask, a, b)`` and ``mask * a + (1 - mask) * b`` have
the same polynomial. Slices of the last axis are pushed down to the leaves and to the columns of the matrices, because
Caffe2 computes all gates by one product and splits the result, and ONNX's operators take the gates apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, Generic, TypeAlias, TypeVar

# What stands for a value of a net: a blob's name, say.
V = TypeVar("V", bound=Hashable)

# A polynomial with more terms is not the state of an LSTM, GRU or RNN; products of sums could grow exponentially.
_MAX_TERMS: Final = 64

# A range of the last axis, as fractions of its length, which may be unknown: [0, 1/4) is the first of four gates.
Part = tuple[Fraction, Fraction]
WHOLE: Final[Part] = (Fraction(0), Fraction(1))

# Atoms by number, sorted, with repetition for powers.
Monomial = tuple[int, ...]
Polynomial = tuple[tuple[Monomial, float], ...]

ZERO: Final[Polynomial] = ()

_Images = Mapping[int, Polynomial]  # what becomes of atoms, by their numbers


@dataclass(frozen=True)
class Leaf(Generic[V]):
    """A state, a row of a sequence or an outer value, or a part of its last axis."""

    value: V
    part: Part = WHOLE


@dataclass(frozen=True)
class Product(Generic[V]):
    """A polynomial times an outer matrix, or times a range of its columns."""

    operand: Polynomial
    matrix: V
    part: Part = WHOLE


@dataclass(frozen=True)
class Function:
    """An elementwise function: ``Sigmoid``, ``Tanh``, ``Relu``."""

    name: str
    operand: Polynomial


@dataclass(frozen=True)
class Mask(Generic[V]):
    """1 in the rows of the batch whose sequence is longer than the number of the step, else 0."""

    lengths: V


@dataclass(frozen=True)
class Pieces:
    """A concatenation of values of equal width along the last axis."""

    operands: tuple[Polynomial, ...]


Atom: TypeAlias = Leaf[V] | Product[V] | Function | Mask[V] | Pieces
_COMPOSED: Final = (Product, Function, Pieces)  # those that are made of polynomials


class TooComplexError(Exception):
    """A polynomial has more terms than a cell can have, or a slice does not fall on the pieces of a concatenation."""


@dataclass
class Algebra(Generic[V]):
    """Operations on polynomials, and the atoms that their monomials refer to by number."""

    atoms: list[Atom[V]] = field(default_factory=list)
    _numbers: dict[Atom[V], int] = field(default_factory=dict)

    def of(self, atom: Atom[V]) -> Polynomial:
        """Return the polynomial of a single atom."""
        number = self._numbers.setdefault(atom, len(self.atoms))
        if number == len(self.atoms):
            self.atoms.append(atom)
        return (((number,), 1.0),)

    @staticmethod
    def constant(value: float) -> Polynomial:
        """Return a constant polynomial."""
        return (((), float(value)),) if value else ZERO

    def add(self, *operands: Polynomial) -> Polynomial:
        """Return the sum."""
        terms: dict[Monomial, float] = {}
        for polynomial in operands:
            for monomial, factor in polynomial:
                terms[monomial] = terms.get(monomial, 0.0) + factor
        return self._normal(terms)

    def scale(self, polynomial: Polynomial, factor: float) -> Polynomial:
        """Return the product with a number."""
        return self._normal({monomial: value * factor for monomial, value in polynomial})

    def multiply(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """Return the product of two polynomials."""
        terms: dict[Monomial, float] = {}
        for left, x in a:
            for right, y in b:
                monomial = self._times(left, right)
                terms[monomial] = terms.get(monomial, 0.0) + x * y
        return self._normal(terms)

    def choose(self, mask: Polynomial, a: Polynomial, b: Polynomial) -> Polynomial:
        """Return ``a`` where the mask is 1, ``b`` where it is 0."""
        return self.add(self.multiply(mask, a), b, self.scale(self.multiply(mask, b), -1.0))

    def complement(self, mask: Polynomial) -> Polynomial:
        """Return ``1 - mask``."""
        return self.add(self.constant(1.0), self.scale(mask, -1.0))

    def part(self, polynomial: Polynomial, part: Part) -> Polynomial:
        """Return a range of the last axis, pushed down to the leaves and matrices."""
        return self._replace([polynomial], lambda atom, images: self._part_of(atom, part, images), (Function,))[0]

    def masks(self, *polynomials: Polynomial) -> set[Mask[V]]:
        """Return all masks in the polynomials, at any depth."""
        return {atom for atom in self._atoms_in(polynomials) if isinstance(atom, Mask)}

    def leaves(self, *polynomials: Polynomial) -> set[V]:
        """Return the values of all leaves in the polynomials, at any depth."""
        return {atom.value for atom in self._atoms_in(polynomials) if isinstance(atom, Leaf)}

    def within_products(self, polynomials: Iterable[Polynomial], known: Polynomial, value: V) -> list[Polynomial]:
        """Replace ``known`` by the leaf ``value`` where all of its terms are terms of the operand of a product."""

        def image(atom: Atom[V], images: _Images) -> Polynomial:
            if isinstance(atom, Product) and set(known) <= set(atom.operand):
                rest = tuple(term for term in atom.operand if term not in known)
                return self.of(Product(self.add(rest, self.of(Leaf(value))), atom.matrix, atom.part))
            return self._with_images(atom, images)

        return self._replace(polynomials, image)

    def assuming(self, polynomials: Iterable[Polynomial], mask: Mask[V], value: float) -> list[Polynomial]:
        """Replace a mask by 0 or 1."""

        def image(atom: Atom[V], images: _Images) -> Polynomial:
            return self.constant(value) if atom == mask else self._with_images(atom, images)

        return self._replace(polynomials, image)

    def factors(self, monomial: Monomial) -> list[Atom[V]]:
        """Return the atoms of a monomial."""
        return [self.atoms[number] for number in monomial]

    def _part_of(self, atom: Atom[V], part: Part, images: _Images) -> Polynomial:
        if isinstance(atom, Leaf):
            return self.of(Leaf(atom.value, _within(atom.part, part)))
        if isinstance(atom, Product):
            return self.of(Product(atom.operand, atom.matrix, _within(atom.part, part)))
        if isinstance(atom, Function | Mask):
            return self._with_images(atom, images)
        width = Fraction(1, len(atom.operands))  # of one piece of a concatenation
        index = part[0] / width
        if part[1] - part[0] != width or index.denominator != 1:
            raise TooComplexError
        return atom.operands[int(index)]

    def _replace(
        self,
        polynomials: Iterable[Polynomial],
        image: Callable[[Atom[V], _Images], Polynomial],
        within: tuple[type[Any], ...] = _COMPOSED,
    ) -> list[Polynomial]:
        """Replace every atom, at any depth within atoms of some kinds, by its image.

        Atoms occur in many others: each is replaced once, after those that it is made of.

        Args:
            polynomials: where to replace.
            image: from an atom and the images of those that it is made of, what it becomes.
            within: the kinds of atoms whose operands are replaced, too.
        """
        polynomials, images = list(polynomials), dict[int, Polynomial]()
        for number in self._numbers_in(polynomials, within):
            images[number] = image(self.atoms[number], images)
        return [self._substituted(polynomial, images) for polynomial in polynomials]

    def _with_images(self, atom: Atom[V], images: _Images) -> Polynomial:
        """Return the atom of operands in which all atoms are replaced."""
        match atom:
            case Product(operand, matrix, part):
                return self.of(Product(self._substituted(operand, images), matrix, part))
            case Function(name, operand):
                return self.of(Function(name, self._substituted(operand, images)))
            case Pieces(operands):
                return self.of(Pieces(tuple(self._substituted(operand, images) for operand in operands)))
        return self.of(atom)

    def _substituted(self, polynomial: Polynomial, images: _Images) -> Polynomial:
        if all(images[number] == (((number,), 1.0),) for monomial, _ in polynomial for number in monomial):
            return polynomial  # as most are
        terms = []
        for monomial, factor in polynomial:
            product = self.constant(factor)
            for number in monomial:
                product = self.multiply(product, images[number])
            terms.append(product)
        return self.add(*terms)

    def _times(self, a: Monomial, b: Monomial) -> Monomial:
        """Return the product of two monomials; masks are idempotent."""
        counts = Counter(a) + Counter(b)
        numbers: list[int] = []
        for number, count in counts.items():
            numbers += [number] * (1 if isinstance(self.atoms[number], Mask) else count)
        return tuple(sorted(numbers))

    def _atoms_in(self, polynomials: Iterable[Polynomial]) -> list[Atom[V]]:
        """Return all atoms, at any depth."""
        return [self.atoms[number] for number in self._numbers_in(polynomials, _COMPOSED)]

    def _numbers_in(self, polynomials: Iterable[Polynomial], within: tuple[type[Any], ...]) -> list[int]:
        """Return the numbers of all atoms, at any depth within some kinds; an atom's is above those of its parts."""
        found: set[int] = set()
        pending = list(polynomials)
        while pending:
            for monomial, _ in pending.pop():
                for number in monomial:
                    if number not in found:
                        found.add(number)
                        atom = self.atoms[number]
                        pending += _operands(atom) if isinstance(atom, within) else ()
        return sorted(found)

    @staticmethod
    def _normal(terms: Mapping[Monomial, float]) -> Polynomial:
        """Return the polynomial of the terms: sorted, without those of coefficient 0."""
        kept = tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor))
        if len(kept) > _MAX_TERMS:
            raise TooComplexError
        return kept


def _within(outer: Part, inner: Part) -> Part:
    """Return the range ``inner`` of the range ``outer``."""
    width = outer[1] - outer[0]
    return outer[0] + inner[0] * width, outer[0] + inner[1] * width


def _operands(atom: Atom[Any]) -> tuple[Polynomial, ...]:
    if isinstance(atom, Product | Function):
        return (atom.operand,)
    return atom.operands if isinstance(atom, Pieces) else ()
