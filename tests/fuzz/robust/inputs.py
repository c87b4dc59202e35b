"""Inputs of the doors: the files of a model, or of arrays, of one kind."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# By kind, the path that is given to a door, in the folder that has the files; "" is the folder itself.
MAIN: Final[Mapping[str, str]] = {
    "net": "predict_net.pb",
    "text": "predict_net.pbtxt",
    "plan": "plan.pb",
    "minidb": "model.minidb",
    "lmdb": "model/data.mdb",
    "leveldb": "model",
    "onnx": "model.onnx",
    "npz": "inputs.npz",
    "pkl": "predict_net.pb",  # beside it, the checkpoint
}
CHECKPOINT: Final = "model_final.pkl"


@dataclass(frozen=True)
class Input:
    """Files by their paths in a folder, and what they are meant to be."""

    kind: str
    files: Mapping[str, bytes] = field(repr=False)

    @property
    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(map(len, self.files.values()))

    @property
    def digest(self) -> str:
        """A short name that depends on the content alone."""
        content = hashlib.sha256()
        for name, data in sorted(self.files.items()):
            content.update(name.encode() + b"\0" + data + b"\0")
        return content.hexdigest()[:10]

    def write(self, folder: Path) -> Path:
        """Write the files, and return the path that a door is given."""
        for name, data in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder / MAIN[self.kind]


def read_input(kind: str, folder: Path) -> Input:
    """The input in a folder that :meth:`Input.write` wrote."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return Input(kind, files)
