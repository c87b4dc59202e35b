"""What integer operands of a recorded case are for, guessed from their values and the shapes of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from conformance.corpus import Array


class Kind(StrEnum):
    """What the elements of an integer operand are."""

    LENGTHS = "lengths"
    SEGMENTS = "segments"
    INDICES = "indices"
    NUMBERS = "numbers"


@dataclass(frozen=True)
class Role:
    """A kind, and the operand whose first dim bounds the elements, or is their sum."""

    kind: Kind
    of: str = ""


def role_of(name: str, inputs: Mapping[str, Array]) -> Role:
    """The role of an integer operand among all operands of a net."""
    array = inputs[name]
    if array.ndim != 1 or not array.size or array.min() < 0:
        return Role(Kind.NUMBERS)
    rows = {other: len(value) for other, value in inputs.items() if other != name and value.ndim}
    total, largest = int(array.astype(object).sum()), int(array.max())
    for other, count in rows.items():
        if count == total:
            return Role(Kind.LENGTHS, other)
    for other, count in rows.items():
        if count == array.size and bool(np.all(array[:-1] <= array[1:])):
            return Role(Kind.SEGMENTS, other)
    for other, count in rows.items():
        if largest < count and inputs[other].dtype.kind == "f":
            return Role(Kind.INDICES, other)
    return Role(Kind.NUMBERS)


def draw_role(role: Role, size: int, rows: int, random: np.random.Generator) -> Array | None:
    """Elements that keep a role, for an operand of ``size`` elements; None if none do."""
    if role.kind is Kind.LENGTHS:
        if not size:
            return None
        cuts = np.sort(random.integers(0, rows + 1, size - 1))
        return np.diff(np.concatenate([[0], cuts, [rows]]))
    if role.kind is Kind.SEGMENTS:
        steps = random.choice([0, 0, 1, 1, 1, 2], size)
        if size:
            steps[0] = random.choice([0, 0, 0, 1])
        return np.cumsum(steps)
    if role.kind is Kind.INDICES:
        return random.integers(0, rows, size) if rows else None
    return None
