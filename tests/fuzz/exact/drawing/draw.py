"""Draw cases: recorded ones, changed, and random programs. A batch is determined by the seed and its number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import numpy as np
from conformance.corpus import CaseRef, find_cases, is_named, read_case
from conformance.deviations import DEVIATIONS
from conformance.outside import OUTSIDE

from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef
from fuzz.exact.drawing.arguments import change_argument
from fuzz.exact.drawing.domain import outside
from fuzz.exact.drawing.drawn import Drawn
from fuzz.exact.drawing.operands import change_dtype, change_rank, change_values, resize
from fuzz.exact.drawing.programs import PROGRAMS, draw_net, with_gradients
from fuzz.exact.drawing.structure import add_operator, change_operands, put_in_branch

GOLDEN: Final = Path(__file__).resolve().parents[3] / "golden"
BATCH: Final = 16
_PROGRAM_SHARE: Final = 0.08
_PROGRAM_GROUPS: Final = {f"program/{kind}": kind for kind in PROGRAMS}
_LARGEST_BYTES: Final = 400_000
_MOST_OPERATORS: Final = 60
_MOST_CHANGES: Final = 3
_VALUES_SHARE: Final = 0.6
_GRADIENT_SHARE: Final = 0.08
# Of draws outside of the domain, the share that is kept, and how often one is drawn again.
_OUTSIDE_SHARE: Final = 0.1
_MOST_DRAWS: Final = 8

Change = Callable[[Drawn, np.random.Generator], Drawn]


@cache
def groups() -> dict[str, tuple[CaseRef, ...]]:
    """The recorded operators and nets inside of their domain, by operator type or file."""
    found: dict[str, list[CaseRef]] = {}
    for ref in find_cases(GOLDEN):
        if ref.kind != "model" and ref.id not in {*OUTSIDE, *DEVIATIONS}:
            found.setdefault(ref.group, []).append(ref)
    return {name: tuple(refs) for name, refs in sorted(found.items())}


@cache
def uses() -> Counter[str]:
    """How often the recorded models use each operator type."""
    count: Counter[str] = Counter()
    for path in sorted((GOLDEN / "models").glob("*/predict_net.pb")):
        count.update(op.type for op in NetDef.FromString(path.read_bytes()).op)
    return count


def chosen_groups(types: Sequence[str]) -> list[str]:
    """The groups that names stand for; all without names. Raises ValueError for a name without recorded cases.

    ``program`` stands for all kinds of random programs, ``program/control`` for one.
    """
    if not types:
        return list(groups())
    found: list[str] = []
    for name in types:
        if programs := [each for each in _PROGRAM_GROUPS if name in {each, "program"}]:
            found += programs
            continue
        matching = [group for group, refs in groups().items() if any(is_named(ref, name) for ref in refs)]
        if not matching:
            msg = f"no recorded case is named {name}"
            raise ValueError(msg)
        found += matching
    return list(dict.fromkeys(found))


def draw_batch(seed: int, number: int, types: Sequence[str] = (), changes: int = _MOST_CHANGES) -> Iterator[Drawn]:
    """The cases of one batch: all of one group, each with up to so many changes, or random programs."""
    random = np.random.default_rng([seed, number])
    names = chosen_groups(types)
    if not types and random.random() < _PROGRAM_SHARE:
        for _ in range(BATCH // 2):
            yield _changed_program(random, PROGRAMS)
        return
    weights = np.array([_weight(name) for name in names])
    chosen = str(random.choice(names, p=weights / weights.sum()))
    if chosen in _PROGRAM_GROUPS:
        for _ in range(BATCH // 2):
            yield _changed_program(random, (_PROGRAM_GROUPS[chosen],))
        return
    group = groups()[chosen]
    cases = [read_case(group[int(i)]) for i in random.integers(0, len(group), 4)]
    known = [arg for case in cases for op in case.net.op for arg in op.arg]
    for _ in range(BATCH):
        case = cases[int(random.integers(0, len(cases)))]
        if sum(array.nbytes for array in case.inputs.values()) > _LARGEST_BYTES or len(case.net.op) > _MOST_OPERATORS:
            continue
        recorded = Drawn(case.ref.group, case.net, case.inputs, case.quantized)
        start = replace(recorded, recorded=recorded)
        yield _inside(partial(_changed, start, random, known, changes), random)


def vary(drawn: Drawn, random: np.random.Generator) -> Drawn:
    """The case with other elements or sizes, but with its net, ranks and element types."""

    def change() -> Drawn:
        varied = drawn
        for _ in range(int(random.integers(1, 3))):
            varied = (change_values if random.random() < _VALUES_SHARE else resize)(varied, random)
        return varied

    return _inside(change, random)


def _inside(draw: Callable[[], Drawn], random: np.random.Generator) -> Drawn:
    """A case that is mostly inside of the domain of its operators."""
    for _ in range(_MOST_DRAWS):
        drawn = draw()
        if not outside(drawn) or random.random() < _OUTSIDE_SHARE:
            break
    return drawn


def _weight(name: str) -> float:
    """How often a group is drawn: more where models use the operator, and where there are many cases."""
    return 1 + math.log2(1 + uses()[name]) + 0.1 * math.log2(len(groups().get(name, (name,))))


def _changed_program(random: np.random.Generator, kinds: Sequence[str]) -> Drawn:
    drawn = draw_net(str(random.choice(kinds)), random)
    return _inside(lambda: change_values(drawn, random), random) if random.random() < 0.3 else drawn


def _changed(drawn: Drawn, random: np.random.Generator, known: Sequence[Argument], most: int) -> Drawn:
    """A case with one to ``most`` changes."""

    def argument(one: Drawn, draw: np.random.Generator) -> Drawn:
        return change_argument(one, draw, known)

    table: list[tuple[Change, float]] = [
        (change_values, 5), (resize, 4), (argument, 5), (change_dtype, 1.5), (change_rank, 1.5),
        (change_operands, 1), (add_operator, 0.7), (put_in_branch, 0.4),
    ]  # fmt: skip
    weights = np.array([weight for _, weight in table])
    for index in random.choice(len(table), int(random.integers(min(1, most), most + 1)), p=weights / weights.sum()):
        drawn = table[int(index)][0](drawn, random)
    if most and random.random() < _GRADIENT_SHARE:  # at last: arguments are those of both operators
        drawn = with_gradients(drawn, random)
    return replace(drawn, net=drawn.copy_net())
