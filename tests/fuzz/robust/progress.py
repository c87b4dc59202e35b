"""What a worker does at the moment, and what it counted, in memory that outlives it."""

from __future__ import annotations

import mmap
import struct
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TypeAlias

from fuzz.robust.doors import DOORS
from fuzz.robust.outcome import Status

_NAMES: Final = [(kind, door) for kind, doors in DOORS.items() for door in doors]
_NUMBERS: Final[Mapping[tuple[str, str], int]] = {name: number for number, name in enumerate(_NAMES)}
_STATUSES: Final = list(Status)
_COLUMNS: Final[Mapping[Status, int]] = {status: column for column, status in enumerate(_STATUSES)}
_CALL: Final = struct.Struct("<qqqd")
_COUNT: Final = struct.Struct("<q")
_SIZE: Final = _CALL.size + _COUNT.size * len(_NAMES) * len(_STATUSES)

Counts: TypeAlias = Counter[tuple[str, str, Status]]


@dataclass(frozen=True)
class Call:
    """A call that a worker has begun.

    Attributes:
        index: of the drawn input; -1 before the first call.
        kind: of the input.
        door: that the input is taken to.
        calls: how many calls the process has begun.
        processor: seconds that the process had computed.
    """

    index: int
    kind: str
    door: str
    calls: int
    processor: float


class Progress:
    """The current call of a worker, and counts by kind of input, door and status, in a file that both map."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        self._calls = 0

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make the file."""
        path.write_bytes(b"\0" * _SIZE)
        made = cls(path)
        made.reset()
        return made

    def reset(self) -> None:
        """Note that a process starts."""
        self._memory[: _CALL.size] = _CALL.pack(-1, 0, 0, 0.0)

    def begin(self, index: int, kind: str, door: str) -> None:
        """Note that a call begins in this process."""
        self._calls += 1
        number = _NUMBERS[kind, door]
        # In one piece: pack_into would clear the memory first, and a process that started long ago look like a new one.
        self._memory[: _CALL.size] = _CALL.pack(index, number, self._calls, time.process_time())

    def call(self) -> Call:
        """The call that was begun last."""
        read, again = self._memory[: _CALL.size], self._memory[: _CALL.size]
        while read != again:
            read, again = again, self._memory[: _CALL.size]
        index, number, calls, processor = _CALL.unpack(read)
        kind, door = _NAMES[number]
        return Call(index, kind, door, calls, processor)

    def count(self, kind: str, door: str, status: Status) -> None:
        """Count the end of a call."""
        at = _CALL.size + _COUNT.size * (_NUMBERS[kind, door] * len(_STATUSES) + _COLUMNS[status])
        _COUNT.pack_into(self._memory, at, _COUNT.unpack_from(self._memory, at)[0] + 1)

    def counts(self) -> Counts:
        """What was counted so far, in all processes that mapped the file."""
        values = [value for (value,) in _COUNT.iter_unpack(self._memory[_CALL.size :])]
        keys = [(*name, status) for name in _NAMES for status in _STATUSES]
        return Counter({key: value for key, value in zip(keys, values, strict=True) if value})
