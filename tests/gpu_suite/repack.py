"""Wheels made smaller: without files that are not needed, and with a RECORD that fits."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable
from pathlib import Path


def without(wheel: Path, is_unneeded: Callable[[str], bool]) -> list[str]:
    """Rewrite a wheel without some of its files, if it has any; return their names."""
    with zipfile.ZipFile(wheel) as old:
        dropped = [name for name in old.namelist() if is_unneeded(name)]
        if not dropped:
            return []
        small = wheel.with_suffix(".small")
        with zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
            for info in old.infolist():
                if info.filename in dropped:
                    continue
                data = old.read(info)
                if info.filename.endswith(".dist-info/RECORD"):
                    data = _record_without(data, dropped)
                new.writestr(info, data)
    small.replace(wheel)
    return dropped


def _record_without(record: bytes, dropped: list[str]) -> bytes:
    rows = [row for row in csv.reader(io.StringIO(record.decode())) if row and row[0] not in dropped]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
