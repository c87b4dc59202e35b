"""What a process that is measured does: runs when it is told to, and says how long it took and what memory it had.

Real Caffe2's python imports this file too, so it is written for the oldest one (3.6) and needs nothing installed.
"""
# ruff: noqa: UP006, UP035 - Python 3.6 knows Dict alone, and no postponed annotations

import gc
import json
import os
import re
import sys
import time
from typing import Any, Callable, Dict, TextIO


def own_stdout() -> TextIO:
    """Return the stream that answers go to; whatever else is printed in this process goes to stderr from now on."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def serve(answers: TextIO, task: Callable[[], Any], warm: int = 0, imported: int = 0) -> None:
    """Answer every line on stdin with the seconds that ``task`` took, after ``warm`` runs without the clock.

    ``processor`` of the answer are the seconds of processors that the process had.

    With ``imported``, the answer also has the peak of resident memory during the task, less so many bytes.
    """
    reply(answers, {"ready": True})
    for _ in sys.stdin:
        for _ in range(warm):
            task()
        gc.collect()
        if imported:
            reset_peak()
        start, own = time.perf_counter(), time.process_time()
        result = task()
        seconds, own = time.perf_counter() - start, time.process_time() - own
        del result  # what the task made is given back without the clock
        peak = _memory("VmHWM") - imported if imported else 0
        reply(answers, {"seconds": seconds, "processor": own, "peak": peak})


def measure(answers: TextIO, task: Callable[[], Any], imported: int) -> None:
    """Run ``task`` once: the seconds it took, and the memory before it and at its peak, in bytes."""
    reset_peak()
    before = resident()
    start = time.perf_counter()
    result = task()
    seconds = time.perf_counter() - start
    reply(answers, {"seconds": seconds, "imported": imported, "before": before, "peak": _memory("VmHWM")})
    del result


def resident() -> int:
    """Return the memory that is resident in this process now, in bytes; Linux alone tells."""
    return _memory("VmRSS")


def peak() -> int:
    """Return the peak of resident memory so far, in bytes; Linux alone tells."""
    return _memory("VmHWM")


def reset_peak() -> None:
    """Forget the peak of resident memory so far."""
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 - as plain as Python 3.6 needs it
        file.write("5")


def _memory(field: str) -> int:
    # Not getrusage: in a process that was forked its peak starts with the parent's.
    with open("/proc/self/status") as file:  # noqa: PTH123 - as plain as Python 3.6 needs it
        found = re.search(field + r":\s+(\d+) kB", file.read())
    assert found
    return int(found.group(1)) * 1024


def reply(answers: TextIO, message: Dict[str, Any]) -> None:
    """Send one line of JSON."""
    answers.write(json.dumps(message) + "\n")
    answers.flush()
