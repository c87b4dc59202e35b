"""Folders cut into parts of a limited size, for machines that take no more at a time, and joined again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

MANIFEST: Final = "manifest.json"
_PIECE: Final = ".piece-"
_MANIFEST_ROOM: Final = 100_000  # bytes of a part that are kept for the manifest, where parts are larger than that


class Piece(NamedTuple):
    """A range of a file, and the number of the part that holds it."""

    file: str
    start: int
    size: int
    part: int

    @property
    def name(self) -> str:
        """The piece's file name in its part."""
        return f"{self.file}{_PIECE}{self.start:012d}"


class PartsError(Exception):
    """Parts are missing or damaged."""


def cut(files: Sequence[Path], folder: Path, limit: int) -> list[Path]:
    """Cut files into ``part-1``, ``part-2``, ... in a folder, each of at most ``limit`` bytes, with a manifest in each.

    Returns the parts. The files are removed.
    """
    room = limit - _MANIFEST_ROOM if limit > 2 * _MANIFEST_ROOM else limit
    pieces = list(_pieces({path.name: path.stat().st_size for path in files}, room))
    sums = {path.name: _digest(path) for path in files}
    count = max((piece.part for piece in pieces), default=0)
    parts = [folder / f"part-{number}" for number in range(1, count + 1)]
    for part in parts:
        part.mkdir()
        (part / MANIFEST).write_text(json.dumps({"pieces": pieces, "sha256": sums}))
    by_name = {path.name: path for path in files}
    for piece in pieces:
        with by_name[piece.file].open("rb") as source:
            source.seek(piece.start)
            (parts[piece.part - 1] / piece.name).write_bytes(source.read(piece.size))
    for path in files:
        path.unlink()
    return parts


def join(folders: Sequence[Path], target: Path) -> list[Path]:
    """Join the parts in some folders to files in ``target``.

    Returns the files; none if the folders hold no parts. Raises PartsError if a part is missing or damaged.
    """
    manifest = next((path for folder in folders for path in sorted(folder.rglob(MANIFEST))), None)
    if manifest is None:
        return []
    found = json.loads(manifest.read_text())
    at = {path.name: path for folder in folders for path in folder.rglob(f"*{_PIECE}*")}
    pieces = [Piece(*row) for row in found["pieces"]]
    absent = sorted({piece.part for piece in pieces if piece.name not in at})
    if absent:
        raise PartsError(f"part-{', part-'.join(map(str, absent))} of the wheels is missing")
    target.mkdir(parents=True, exist_ok=True)
    for name, expected in found["sha256"].items():
        with (target / name).open("wb") as file:
            for piece in (piece for piece in pieces if piece.file == name):
                with at[piece.name].open("rb") as source:
                    shutil.copyfileobj(source, file)
        if _digest(target / name) != expected:
            (target / name).unlink()
            raise PartsError(f"{name} is damaged: its SHA-256 is not that of the manifest")
    return [target / name for name in found["sha256"]]


def _pieces(sizes: dict[str, int], limit: int) -> Iterator[Piece]:
    """Fill one part after another, file after file; the manifest's own size is left out of account."""
    part, room = 1, limit
    for name, size in sizes.items():
        start = 0
        while start < size or (start == size == 0):
            if room == 0:
                part, room = part + 1, limit
            taken = min(room, size - start)
            yield Piece(name, start, taken, part)
            start, room = start + taken, room - taken
            if size == 0:
                break


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
