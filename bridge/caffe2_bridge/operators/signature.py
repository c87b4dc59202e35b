"""Signatures: which dims of an operator's operands and results are equal, in a small notation.

``X[N, {group=1}*C, *S]; W[M, C, *S'], b[M] -> Y[N, M, *S'']``: inputs, then parameters (between semicolons), and
results. Equal symbols are equal sizes. What is not named, or named without brackets, may have any shape.

=============  ===================================================================================================
``C``, ``3``   a dim; ``_`` is any dim
``2*C``        a dim that is a product of integers and symbols
``*S``         any number of dims, the same wherever ``*S`` stands; ``S`` alone is one dim with all their elements
``*S'``        as many dims as ``*S``, of other sizes
``~K``         any number of dims, here and now, with ``K`` elements together
``+J``         a dim of each operand, or result, of the name: together they are ``J`` long
``*S{2}``      two dims; ``*S{-2}``: all but the last two of the operand
``*S:2``       usually two dims
``C?``         usually this dim: nothing follows from it
``X...[C]``    one operand or more
``^C``         a dim that comes last where the argument ``order`` is NHWC
``{axis=1}``   the integer argument ``axis``, by default 1; replaced before all else
=============  ===================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add, floordiv, mul, sub
from typing import Any, Final, TypeAlias

from caffe2_bridge.bounds import MAX_RANK
from caffe2_bridge.netdef.views import OpView

# A size is an integer, or an array of them, one for each of several hypotheses. None and names are unknown.
Shape: TypeAlias = Sequence[Any]
Key: TypeAlias = Any  # of a dim: an integer, a symbol, or a symbol and an index
Differs: TypeAlias = Callable[[Any, Any], object]
Join: TypeAlias = Callable[[Any, Any], Any]
# A signature, or a function of an operator and the shapes that are known.
Text: TypeAlias = str | Callable[[OpView, Sequence[Shape | None]], str]

_OPERAND: Final = re.compile(r"(\w+)(\.\.\.)?(?:\[([^\]]*)\])?")
_TERM: Final = re.compile(r"([*~+]?)(\w[\w*']*?)(?:\{(-?\d+)\})?(?::(\d+))?(\?)?")


@dataclass(frozen=True, slots=True)
class Term:
    """A dim or a group of dims: what :mod:`.signature` writes as one term."""

    kind: str
    symbol: str
    length: int | None
    usual: int | None
    is_loose: bool

    @property
    def is_group(self) -> bool:
        """Whether the term is any number of dims."""
        return self.kind in ("*", "~")

    @property
    def factors(self) -> tuple[int | str, ...]:
        """The integers and symbols whose product is the size of a dim."""
        return tuple(int(factor) if factor.isdigit() else factor for factor in self.symbol.split("*"))


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand or a result; ``terms`` is None if it may have any shape."""

    name: str
    terms: tuple[Term, ...] | None = None
    repeats: bool = False
    is_parameter: bool = False


_ANY: Final = Operand("")


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """The operands and results of an operator."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    def is_parameter(self, index: int) -> bool:
        """Whether an input is a parameter."""
        return _operand_at(self.inputs, index).is_parameter

    def infer(
        self,
        inputs: Sequence[Shape | None],
        outputs: Sequence[Shape | None] = (),
        *,
        usual: bool = False,
        differs: Differs | None = None,
    ) -> list[Shape | None]:
        """Infer the shapes of the inputs and outputs from each other.

        Args:
            inputs: known shapes, None for those of unknown rank; a dim that is no number is unknown.
            outputs: the same of the outputs.
            usual: whether what is only usual counts.
            differs: called with two known sizes that the signature equates.

        Returns:
            The shapes, in which everything that is known is kept. Those with another rank than the signature's stay.
        """
        if differs is None:
            known = (None if shape is None else tuple(shape) for shape in (*inputs, *outputs))
            return list(_inferred(self, len(inputs), tuple(known), usual))
        return _Solver(self, len(inputs), [*inputs, *outputs], differs).solve(usual=usual)


@lru_cache(maxsize=4096)
def _inferred(signature: Signature, inputs: int, shapes: tuple[Any, ...], usual: bool) -> tuple[Shape | None, ...]:
    """Return the shapes for numbers, remembered: layers of a net are often alike."""
    return tuple(_Solver(signature, inputs, shapes, None).solve(usual=usual))


def _spread(operands: Sequence[Operand], count: int) -> Iterator[Operand]:
    """Return as many operands as there are; missing ones may have any shape."""
    return (_operand_at(operands, index) for index in range(count))


def _operand_at(operands: Sequence[Operand], index: int) -> Operand:
    """Return the operand at an index; one that is not described may have any shape."""
    if index < len(operands):
        return operands[index]
    return operands[-1] if operands and operands[-1].repeats else _ANY


@lru_cache(maxsize=4096)
def parse(text: str, *, is_last: bool = False) -> Signature:
    """Parse a signature whose arguments have been replaced; ``is_last`` puts the dims marked with ``^`` last."""
    inputs, outputs = text.split("->")
    data = [
        _operand(*found, is_last=is_last, is_parameter=bool(part % 2))
        for part, operands in enumerate(inputs.split(";"))
        for found in _OPERAND.findall(operands)
    ]
    results = [_operand(*found, is_last=is_last) for found in _OPERAND.findall(outputs)]
    return Signature(tuple(data), tuple(results))


def _operand(name: str, dots: str, dims: str, *, is_last: bool, is_parameter: bool = False) -> Operand:
    if not dims:
        return Operand(name, None, bool(dots), is_parameter)
    texts = [text.strip() for text in dims.split(",")]
    moved = [text for text in texts if text.startswith("^")] if is_last else []
    terms = [
        _term(text.lstrip("^")) for text in [*(text for text in texts if text not in moved), *moved] if text != "()"
    ]
    return Operand(name, tuple(terms), bool(dots), is_parameter)


def _term(text: str) -> Term:
    found = _TERM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no term of a signature")
    kind, symbol, length, usual, loose = found.groups()
    return Term(kind, symbol, _number(length), _number(usual), loose is not None)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


class _Solver:
    """Finds lengths of groups, then sizes of dims."""

    def __init__(
        self, signature: Signature, inputs: int, shapes: Sequence[Shape | None], differs: Differs | None
    ) -> None:
        outputs = len(shapes) - inputs
        self._operands = [*_spread(signature.inputs, inputs), *_spread(signature.outputs, outputs)]
        self._shapes, self._differs = shapes, differs
        self._lengths: dict[Key, int] = {}
        self._sizes: dict[Key, Any] = {}

    def solve(self, *, usual: bool) -> list[Shape | None]:
        for index, terms in self._described():
            self._fix_lengths(index, terms)
        self._settle_lengths()
        for index, terms in self._described() if usual else ():
            for term in terms:
                if term.usual is not None and _length_key(index, term) not in self._lengths:
                    self._lengths[_length_key(index, term)] = term.usual
                    self._settle_lengths()
        layouts = [self._layout(index, operand) for index, operand in enumerate(self._operands)]
        for layout, shape in zip(layouts, self._shapes, strict=True):
            if layout is not None and shape is not None and len(layout) == len(shape):
                for (key, loose), size in zip(layout, shape, strict=True):
                    if not loose:
                        self._equate(key, size)
        self._settle_sizes()
        return [self._shape(*both, usual=usual) for both in zip(layouts, self._shapes, strict=True)]

    def _described(self) -> Iterator[tuple[int, tuple[Term, ...]]]:
        return ((index, operand.terms) for index, operand in enumerate(self._operands) if operand.terms is not None)

    def _fix_lengths(self, index: int, terms: Sequence[Term]) -> None:
        """Take the lengths that are written; a negative one says how many dims are left from there on.

        One that no tensor has, which only an argument can say, is left out.
        """
        for at, term in enumerate(terms):
            if term.length is None or abs(term.length) > MAX_RANK:
                continue
            if term.length >= 0:
                self._lengths[_length_key(index, term)] = term.length
            else:
                groups = [other for other in terms[at + 1 :] if other.is_group]
                if len(groups) == 1:
                    length = -term.length - (len(terms) - at - 2)
                    self._lengths[_length_key(index, groups[0])] = max(length, 0)

    def _settle_lengths(self) -> None:
        """Find the length of a group that is the only unknown one of an operand of known rank."""
        found = True
        while found:
            found = False
            for index, terms in self._described():
                shape = self._shapes[index]
                if any(term.is_group and term.is_loose for term in terms):
                    continue
                keys = [_length_key(index, term) for term in terms if term.is_group]
                unknown = [key for key in keys if key not in self._lengths]
                if shape is None or len(unknown) != 1:
                    continue
                rest = len(shape) - sum(self._lengths.get(key, 0) for key in keys) - (len(terms) - len(keys))
                if rest >= 0:
                    self._lengths[unknown[0]] = rest
                    found = True

    def _layout(self, index: int, operand: Operand) -> list[tuple[Key, bool]] | None:
        """Return the key of each dim and whether it is loose; None while the operand's rank is unknown."""
        keys: list[tuple[Key, bool]] = []
        for at, term in enumerate(operand.terms or ()):
            length = self._lengths.get(_length_key(index, term)) if term.is_group else 1
            if length is None:
                return None
            keys += [(_dim_key(index, at, term, i), term.is_loose) for i in range(length)]
        return None if operand.terms is None else keys

    def _equate(self, key: Key, size: Any) -> bool:
        """Give a dim a size; whether that is new."""
        if size is None or isinstance(size, str):
            return False
        known = key if isinstance(key, int) else self._sizes.get(key)
        if known is None:
            self._sizes[key] = size
        elif self._differs is not None and known is not size:
            self._differs(known, size)
        return known is None

    def _settle_sizes(self) -> None:
        """Solve products and sums of which one size is unknown."""
        read = {
            factor for _, terms in self._described() for term in terms if term.kind != "*" for factor in term.factors
        }
        sums: dict[str, list[Key]] = {}
        products: list[tuple[Key, list[Key]]] = []
        for index, terms in self._described():
            for at, term in enumerate(terms):
                if term.kind == "+":
                    sums.setdefault(term.symbol, []).append(_dim_key(index, at, term, 0))
                elif term.is_group and term.symbol in read:
                    length = self._lengths.get(_length_key(index, term))
                    if length is not None:
                        products.append((term.symbol, [_dim_key(index, at, term, i) for i in range(length)]))
                elif len(term.factors) > 1:
                    products.append((_dim_key(index, at, term, 0), list(term.factors)))
        found = True
        while found:
            found = any(self._solve(*equation, mul, floordiv) for equation in products)
            found |= any(self._solve(*equation, add, sub) for equation in sums.items())

    def _solve(self, whole: Key, parts: Sequence[Key], join: Join, part: Join) -> bool:
        """Find the whole from its parts, or the only unknown part; whether anything was found."""
        sizes = [key if isinstance(key, int) else self._sizes.get(key) for key in parts]
        known = [size for size in sizes if size is not None]
        total, neutral = self._sizes.get(whole), int(join is mul)
        joined = reduce(join, known, neutral)
        if len(known) == len(sizes):
            if total is None or self._differs is not None:
                return self._equate(whole, joined)
        elif len(known) == len(sizes) - 1 and isinstance(total, int) and isinstance(joined, int):
            rest = part(total, joined) if joined or join is add else -1
            if rest > 0 and join(rest, joined) == total:
                return self._equate(parts[sizes.index(None)], rest)
        return False

    def _shape(self, layout: list[tuple[Key, bool]] | None, shape: Shape | None, *, usual: bool) -> Shape | None:
        if layout is None or (shape is not None and len(shape) != len(layout)):
            return shape
        found = [None if loose and not usual else key if isinstance(key, int) else self._sizes.get(key)
                 for key, loose in layout]  # fmt: skip
        known = shape or found
        return tuple(new if old is None else old for old, new in zip(known, found, strict=True))


def _length_key(index: int, term: Term) -> Key:
    return (index, term.symbol) if term.kind == "~" else term.symbol.rstrip("'")


def _dim_key(index: int, at: int, term: Term, i: int) -> Key:
    if term.kind == "*":
        return term.symbol, i
    factors = term.factors
    if term.kind or len(factors) > 1 or term.symbol == "_":
        return index, at, i
    return factors[0]
