"""Sweeps whose cases are many and alike run a share of them, unless the environment variable says to run all."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from typing import Final, TypeVar

VARIABLE: Final = "CAFFE2_BRIDGE_SHARE"
T = TypeVar("T")


def share(
    cases: Iterable[T], stride: int, *, name: Callable[[T], str], group: Callable[[T], Hashable] = lambda _: None
) -> list[T]:
    """Return about one in ``stride`` of the cases, at least one of each group, in their order; all where asked.

    A hash of its name chooses a case, so that one that is added leaves the choice of the others as it was, but for the
    one of a group that has no other.

    Args:
        cases: all cases.
        stride: how many cases stand for one.
        name: what tells a case from all others.
        group: what is the same for cases of one kind, no kind of which may be left out.
    """
    every = list(cases)
    if runs_all():
        return every
    hashes = [_hash(name(case)) for case in every]
    least: dict[Hashable, int] = {}
    for case, number in zip(every, hashes, strict=True):
        least[group(case)] = min(number, least.get(group(case), number))
    chosen = zip(every, hashes, strict=True)
    return [case for case, number in chosen if number % stride == 0 or number == least[group(case)]]


def runs_all() -> bool:
    """Whether ``CAFFE2_BRIDGE_SHARE`` is ``all``. Raises ValueError where it is anything else."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "all"):
        raise ValueError(f"{VARIABLE} is {asked!r}: the only value that it takes is 'all'")
    return bool(asked)


def _hash(name: str) -> int:
    """Return a number whose remainders tell nothing of those of like names, as they would with a checksum."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
