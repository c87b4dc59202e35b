"""The process that calls doors: reads requests as JSON lines, and answers with outcomes.

It may die or hang at any of them: :mod:`fuzz.robust.monitor` starts it, and ends it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import BridgeError, ConversionError
from fuzz.robust.doors import DOORS, Door, UnexpectedOutputError
from fuzz.robust.draw import draw_case
from fuzz.robust.inputs import Input, read_input
from fuzz.robust.outcome import Outcome, Status, escaped, place_of
from fuzz.robust.progress import Progress
from fuzz.robust.room import Room
from fuzz.robust.seeds import Seeds

MEMORY: Final = 200 << 20  # bytes beyond ten times the input
_HARD_LIMIT: Final = 6 << 30  # bytes of data: what a machine surely has
INTERNAL: Final = "internal-error"


class Caller:
    """Calls doors in a room, and measures memory."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._start = 0

    def call(self, found: Input, door: Door) -> Outcome:
        """Call a door with an input, in empty folders."""
        allowed = 10 * found.size + MEMORY
        outcome, used = self._measured(found, door)
        if used > allowed and not (door.runs or outcome.is_violation):
            self._start = 0  # calls before this one used a part of it, perhaps
            outcome, used = self._measured(found, door)
            if used > allowed and not outcome.is_violation:
                return Outcome(Status.MEMORY, detail=f"{used >> 20} MB for {found.size} bytes")
        return outcome

    def _measured(self, found: Input, door: Door) -> tuple[Outcome, int]:
        """The outcome of a call, and the bytes that it used, and calls before it since the last reset, at most."""
        if not self._start or _peak() - self._start > MEMORY // 2:  # to reset it takes long, and most calls use little
            self._start = _reset_peak()
        path = self._room.enter(found)
        outcome = _called(door, path, self._room.output)
        strays = self._room.leave()
        if strays and not outcome.is_violation:
            outcome = Outcome(Status.WROTE, detail=str(strays))
        return outcome, _peak() - self._start


def _called(door: Door, path: Path, out: Path) -> Outcome:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            door.call(path, out)
    except ConversionError as error:
        internal = [finding for finding in error.errors if finding.code == INTERNAL]
        if internal:
            place, _, detail = internal[0].reason.removeprefix("internal error at ").partition("): ")
            return Outcome(Status.INTERNAL, re.sub(r":\d+ \(", ":", place), detail)
        return Outcome(Status.REFUSED, detail=type(error).__name__)
    except BridgeError as error:
        return Outcome(Status.REFUSED, detail=type(error).__name__)
    except UnexpectedOutputError as error:
        return Outcome(Status.PRINTED, place_of(error.__traceback__), str(error))
    except Exception as error:  # noqa: BLE001 - this is what is searched for
        return escaped(error)
    return Outcome(Status.RETURNED)


def _reset_peak() -> int:
    """Reset the largest resident size, and return it."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak()


def _peak() -> int:
    """The largest resident size since the last reset, in bytes."""
    with open("/proc/self/status", "rb") as status:  # noqa: PTH123 - called for every input
        return int(status.read().partition(b"VmHWM:")[2].split(None, 1)[0]) << 10


def serve(seeds: Path, progress: Progress) -> None:
    """Answer requests until the input ends.

    A request has a ``seed``, the ``first`` index and the index to ``stop`` before; or the ``kind`` of an input, the
    ``folder`` of its files, and a ``door``. Answers are an object for each violation, with its index, kind and door,
    or for the outcome at that door, and an empty one at the end.
    """
    drawn = Seeds(seeds)
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "r+b") as null:  # noqa: PTH123 - the descriptor is needed
        os.dup2(null.fileno(), 1)
    with Room() as room:
        caller = Caller(room)
        for line in sys.stdin:
            request = json.loads(line)
            given = "folder" in request
            for index, found, door in _requested(request, drawn):
                progress.begin(index, found.kind, door)
                outcome = caller.call(found, DOORS[found.kind][door])
                progress.count(found.kind, door, outcome.status)
                if given or outcome.is_violation:
                    answer = {"index": index, "kind": found.kind, "door": door, **outcome.to_json()}
                    print(json.dumps(answer), file=answers, flush=True)
            print("{}", file=answers, flush=True)


def _requested(request: dict[str, Any], seeds: Seeds) -> Iterator[tuple[int, Input, str]]:
    if "folder" in request:
        yield 0, read_input(request["kind"], Path(request["folder"])), request["door"]
        return
    for index in range(request["first"], request["stop"]):
        yield index, *draw_case(seeds, request["seed"], index)


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    resource.setrlimit(resource.RLIMIT_DATA, (_HARD_LIMIT, _HARD_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(Path(sys.argv[1]), Progress(Path(sys.argv[2])))
