"""A model of a batch, as data: one task, which any process can run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final

from caffe2_validation.options import ValidationOptions

_LONGEST: Final = 160  # bytes of a file's name, to which suffixes are added
_LONGEST_PATH: Final = 1024


@dataclass(frozen=True)
class ModelTask:
    """One model, and what a manifest says of it.

    Attributes:
        name: of the model, unique in a batch: the path of its results under the folder of the batch.
        path: of the model.
        init: path of its init net; empty for the one that is found by name.
        inputs: ``(dtype, shape)`` by name, either of them None if unknown; dims are sizes, names or None.
        outputs: the blobs to output; empty for the model's own.
        opset: the ONNX opset of the export; None for the default.
        rtol: relative tolerance; None for that of the batch.
        atol: absolute tolerance; None for that of the batch.
        recurrent: the form of recurrent nets in the export; empty for that of the batch.
        owner: who answers for the model; results are listed by owner.
    """

    name: str
    path: str
    init: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    opset: int | None = None
    rtol: float | None = None
    atol: float | None = None
    recurrent: str = ""
    owner: str = ""

    @property
    def stem(self) -> str:
        """The path of the model's results without a suffix: its name, but for parts that cannot name files."""
        parts = PurePosixPath(self.name).parts
        stem = "/".join(map(_file_name, parts))
        return stem if len(stem) <= _LONGEST_PATH else _file_name(parts[-1], digest_of=self.name)

    def options(self, common: ValidationOptions) -> ValidationOptions:
        """Return the options of the batch, with what the task says in their place. Raises OptionError."""
        own: dict[str, Any] = {
            name: getattr(self, name) for name in ("rtol", "atol") if getattr(self, name) is not None
        }
        if self.recurrent:
            own["recurrent"] = self.recurrent
        if self.outputs:
            own["outputs"] = self.outputs
        described = {name: tuple(spec) for name, spec in self.inputs.items()}
        return replace(common, described={**common.described, **described}, **own)

    def to_json(self) -> str:
        """Return the task as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    def identity(self) -> str:
        """Return what the result of the model depends on, as JSON text: all but the owner."""
        return json.dumps(asdict(replace(self, owner="")), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ModelTask:
        """Invert :meth:`to_json`."""
        data = json.loads(text)
        return cls(**data | {"outputs": tuple(data["outputs"])})


def _file_name(part: str, digest_of: str = "") -> str:
    """Return a part of a path, with a digest in the place of what is too long for a file or not printable."""
    safe = "".join(char if char.isprintable() else "-" for char in part)
    if safe == part and len(part.encode()) <= _LONGEST and not digest_of:
        return part
    digest = hashlib.sha256((digest_of or part).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe.encode()[:_LONGEST].decode(errors='ignore')}-{digest}"
