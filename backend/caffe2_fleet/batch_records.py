"""The records of a batch, one JSON file a model: what is done is not done again."""

from __future__ import annotations

import hashlib
import json

from caffe2_bridge.storage import AnyPath, read_file
from caffe2_fleet.result import LIMITS, VERDICTS, ModelResult
from caffe2_frontend.interop.files.onnx_files import replacing


class Records:
    """The records in a folder, by the names of models."""

    def __init__(self, target: AnyPath) -> None:
        """Open the records of a batch that writes to ``target``. Raises OSError if the folder cannot be made."""
        self._target = target
        self._folder = target / "results"
        self._folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str, key: str) -> ModelResult | None:
        """Return the record of a model, if it has this key and the files that it names exist.

        A model that a limit ended is tried again: the limit may be another one now.
        """
        try:
            data = json.loads(read_file(self._file(name)))
            result = ModelResult(**data)
        except (OSError, ValueError, TypeError):  # none, or one that was cut off
            return None
        if result.model != name or result.key != key or result.verdict not in VERDICTS or result.cause in LIMITS:
            return None
        files = [self._target / file for file in (result.onnx, result.page) if file]
        return result if all(file.exists() for file in files) else None

    def write(self, result: ModelResult) -> None:
        """Write a record. Raises OSError."""
        with replacing(self._file(result.model)) as file:
            file.write(json.dumps(vars(result), indent=2).encode())

    def _file(self, name: str) -> AnyPath:
        """Return a readable part of the name, and a digest that keeps names apart."""
        readable = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
        readable = readable.encode()[-80:].decode(errors="ignore")  # names of files are limited in bytes
        return self._folder / f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.json"
