"""Mutations of bytes, of any format."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_NUMBERS: Final = tuple(
    value.to_bytes(size, "little", signed=True)
    for size in (1, 2, 4, 8)
    for value in (-(2 ** (8 * size - 1)), -1, 0, 1, 2 ** (8 * size - 2), 2 ** (8 * size - 1) - 1)
)
_TOKENS: Final = (
    b"\xff", b"\xc3\x28", b"\x00", b"\n", b'"', b"{", b"}" * 8, b"{" * 300, b"<", b"\\", b"'", b"#", b"../",
    b"\x1b[31m", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80" * 11, b"PK\x03\x04", b"\x93NUMPY",
)  # fmt: skip
_LONGEST: Final = 64


def _flip(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set(data: bytearray, draw: random.Random) -> None:
    data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))


def _truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _delete(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    del data[start : start + draw.randint(1, _LONGEST)]


def _repeat(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    data[start:start] = data[start : start + draw.randint(1, _LONGEST)] * draw.choice((1, 1, 2, 50))


def _overwrite_number(data: bytearray, draw: random.Random) -> None:
    number = draw.choice(_NUMBERS)
    start = draw.randrange(len(data))
    data[start : start + len(number)] = number


def _insert_token(data: bytearray, draw: random.Random) -> None:
    start = draw.randrange(len(data))
    data[start:start] = draw.choice(_TOKENS)


def _swap(data: bytearray, draw: random.Random) -> None:
    size = draw.randint(1, _LONGEST)
    first, second = draw.randrange(len(data)), draw.randrange(len(data))
    data[first : first + size], data[second : second + size] = data[second : second + size], data[first : first + size]


_MUTATIONS: Final[tuple[Callable[[bytearray, random.Random], None], ...]] = (
    _flip, _set, _truncate, _delete, _repeat, _overwrite_number, _insert_token, _swap,
)  # fmt: skip


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    """Apply one to six mutations; empty data stays empty."""
    mutated = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        if mutated:
            draw.choice(_MUTATIONS)(mutated, draw)
    return bytes(mutated)
