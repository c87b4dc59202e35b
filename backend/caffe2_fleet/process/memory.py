"""Memory of this machine and of processes, as Linux reports it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEFAULT: Final = 4 << 30  # of a machine that does not report its memory


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process and its children, in bytes; 0 if it ended or the system reports none."""
    try:
        pages = int((_PROC / str(process) / "statm").read_bytes().split()[1])
        children = (_PROC / str(process) / "task" / str(process) / "children").read_bytes().split()
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident_bytes(int(child)) for child in children)


def available_bytes() -> int:
    """Return the memory that new processes can take without swapping, in bytes, or what the container leaves."""
    try:
        lines = (_PROC / "meminfo").read_text(encoding="ascii").splitlines()
        found = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        found = _DEFAULT
    return min([found, *_of_control_group()])


def _of_control_group() -> list[int]:
    """Return what a container of cgroup v2 leaves, if it has a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = int((folder / "memory.max").read_text(encoding="ascii"))
        return [max(limit - int((folder / "memory.current").read_text(encoding="ascii")), 0)]
    except (OSError, ValueError):  # no such group, or "max"
        return []
