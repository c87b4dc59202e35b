"""The lock file of a fleet: content hashes of the models' files, so that a second run hashes what changed only."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from caffe2_bridge.regular_file import open_regular
from caffe2_bridge.storage import AnyPath, locate, read_file
from caffe2_fleet.models.discovery import files_of
from caffe2_fleet.task import ModelTask
from caffe2_frontend.interop.files.onnx_files import replacing

NAME: Final = "fleet.lock"
_SCHEMA: Final = 1
# A file that was written this recently may change again without a change of its time.
_SETTLED: Final = 2 * 10**9


@dataclass(frozen=True)
class FileHash:
    """A file: its size in bytes, when it was written (ns; 0: do not trust it), and its SHA-256."""

    size: int
    written: int
    sha256: str


@dataclass
class Lock:
    """Hashes by path, and the models that they were computed for.

    Attributes:
        known: hashes of an earlier run.
        files: hashes of this one.
        models: the key and the files of each model, by name.
    """

    known: Mapping[str, FileHash] = field(default_factory=dict)
    files: dict[str, FileHash] = field(default_factory=dict)
    models: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: AnyPath) -> Lock:
        """Read a lock file; one that is absent or damaged locks nothing."""
        try:
            data = json.loads(read_file(path))
            if data["schema"] != _SCHEMA:
                return cls()
            return cls({name: FileHash(*entry) for name, entry in data["files"].items()})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls()

    def write(self, path: AnyPath) -> None:
        """Replace the lock file by the hashes of this run. Raises OSError."""
        files = {name: [found.size, found.written, found.sha256] for name, found in sorted(self.files.items())}
        with replacing(path) as file:
            file.write(json.dumps({"schema": _SCHEMA, "models": self.models, "files": files}).encode())

    def hash(self, path: AnyPath) -> FileHash:
        """Return the hash of a file, computed if its size or its time changed. Raises OSError.

        For a remote file it is that of the version that its store reports, so that it need not be downloaded.
        """
        name, stat = str(path), path.stat()
        if not isinstance(path, Path):
            version = path.version()
            content = version.encode() if version else path.read_bytes()
            found = FileHash(stat.st_size, 0, hashlib.sha256(content).hexdigest())
            self.files[name] = found
            return found
        known = self.files.get(name) or self.known.get(name)
        if known is None or (known.size, known.written) != (stat.st_size, stat.st_mtime_ns):
            settled = time.time_ns() - stat.st_mtime_ns > _SETTLED
            with open_regular(path) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            known = FileHash(stat.st_size, stat.st_mtime_ns if settled else 0, digest)
        self.files[name] = known
        return known

    def lock(self, task: ModelTask, common: str) -> tuple[str, int]:
        """Return the key of a model, and the bytes of its files.

        Args:
            task: the model, and what is asked of it.
            common: what is asked of every model, and the version of this project.

        Raises OSError if a file cannot be read.
        """
        digest = hashlib.sha256(f"{common}\n{task.identity()}".encode())
        paths = files_of_task(task)
        hashes = [self.hash(path) for path in paths]
        for path, found in zip(paths, hashes, strict=True):
            digest.update(f"\n{path.name}\n{found.sha256}".encode("utf-8", "surrogatepass"))
        key = digest.hexdigest()
        self.models[task.name] = {"key": key, "files": [str(path) for path in paths]}
        return key, sum(found.size for found in hashes)


def files_of_task(task: ModelTask) -> Sequence[AnyPath]:
    """Return the files of a model: those of its folder, or itself and its init net. Raises OSError."""
    model = locate(task.path)
    files = sorted(path for path in model.iterdir() if path.is_file()) if model.is_dir() else files_of(model)
    return [*files, locate(task.init)] if task.init else files
