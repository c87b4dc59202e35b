"""Minimal shared libraries: ELF files that name libraries that they need, and hold nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path


def write_library(path: Path, needed: Sequence[str]) -> None:
    """Write a 64-bit ELF file whose dynamic section names libraries; no loader could load it."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    offsets = [1 + sum(len(name) + 1 for name in needed[:index]) for index in range(len(needed))]
    start, base = 64 + 2 * 56, 0x1000
    entries = [(1, offset) for offset in offsets] + [(5, base + start), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    size = start + len(strings) + len(dynamic)
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    at = start + len(strings)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    section = struct.pack("<IIQQQQQQ", 2, 6, at, base + at, base + at, len(dynamic), len(dynamic), 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + load + section + strings + dynamic)
