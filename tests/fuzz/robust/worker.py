"""The process that calls doors: reads requests as JSON lines, and answers each with an outcome.

It may die or hang at any of them: :mod:`fuzz.robust.monitor` starts it, and ends it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.diagnostics import BridgeError, ConversionError
from fuzz.robust.doors import DOORS, Door, UnexpectedOutputError
from fuzz.robust.draw import draw_case
from fuzz.robust.inputs import Input, read_input
from fuzz.robust.outcome import Outcome, Status, escaped, place_of
from fuzz.robust.seeds import Seeds

MEMORY: Final = 200 << 20  # bytes beyond ten times the input
_HARD_LIMIT: Final = 6 << 30  # bytes of data: what a machine surely has
INTERNAL: Final = "internal-error"


def call(found: Input, door: Door, room: Path) -> Outcome:
    """Call a door with an input, in an empty folder of its own."""
    inner, out = room / "a" / "b", room / "out"
    source = room / "in"
    for folder in (inner, out, source):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    path = found.write(source)
    before = _listing(room)
    os.chdir(inner)
    _reset_peak()
    start = _peak()
    outcome = _called(door, path, out)
    used = _peak() - start
    if outcome.is_violation:
        return outcome
    if not door.runs and used > 10 * found.size + MEMORY:
        return Outcome(Status.MEMORY, detail=f"{used >> 20} MB for {found.size} bytes")
    if _listing(room) != before:
        return Outcome(Status.WROTE, detail=str(sorted(_listing(room) ^ before)))
    return outcome


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


def _listing(room: Path) -> set[str]:
    """What lies outside of the folder that a door may write to."""
    return {f"{path}:{path.lstat().st_size}" for path in room.rglob("*") if room / "out" not in (path, *path.parents)}


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak() -> int:
    """The largest resident size since the last reset, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def serve(seeds: Path) -> None:
    """Answer requests until the input ends.

    A request has a ``seed`` and an ``index``, or the ``kind`` of an input, the ``folder`` of its files, and a ``door``.
    """
    drawn = Seeds(seeds)
    answers = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "r+b") as null:  # noqa: PTH123 - the descriptor is needed
        os.dup2(null.fileno(), 1)
    with tempfile.TemporaryDirectory() as room:
        for line in sys.stdin:
            found, name = _requested(json.loads(line), drawn)
            outcome = call(found, DOORS[found.kind][name], Path(room))
            print(json.dumps({"kind": found.kind, "door": name, **outcome.to_json()}), file=answers, flush=True)


def _requested(request: dict[str, Any], seeds: Seeds) -> tuple[Input, str]:
    if "index" in request:
        return draw_case(seeds, request["seed"], request["index"])
    return read_input(request["kind"], Path(request["folder"])), request["door"]


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    resource.setrlimit(resource.RLIMIT_DATA, (_HARD_LIMIT, _HARD_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(Path(sys.argv[1]))
