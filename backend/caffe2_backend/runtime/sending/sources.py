"""Models as they go to another process: by path and digest where there is a file, else by value."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

import onnx

from caffe2_backend.admission import admit_file
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.files import load
from caffe2_bridge.files.detect import is_onnx_file
from caffe2_bridge.model import Model
from caffe2_bridge.regular_file import open_regular
from caffe2_bridge.storage import AnyPath, Location, locate

# Bytes of a model that goes by value. Those of an ONNX model stay in memory for it, of a net only what it has anyway.
_LARGEST_NET: Final = 1 << 30
_LARGEST_GRAPH: Final = 1 << 26


class Source(ABC):
    """A model that can be sent. As text it is the path of the model, without credentials; empty if there is none."""

    @abstractmethod
    def given(self) -> Any:
        """Return the model: a net, or an ONNX model or its path. Raises RunError if it is not the one that was sent."""

    @abstractmethod
    def sent(self) -> Source:
        """Return what is pickled. Raises RunError if the model is too large to go by value, or changed on disk."""


class _FileSource(Source):
    """A model at a path."""

    def __init__(self, path: Location, digest: str = "") -> None:
        self.path, self.digest = path, digest
        where = locate(path)
        # For processes in other folders; the URL of a remote file may hold credentials.
        self.everywhere = str(where.absolute()) if isinstance(where, Path) else where.url.text

    def __reduce__(self) -> Any:
        return type(self), (self.everywhere, self.digest)

    def __str__(self) -> str:
        return str(locate(self.path))

    def _require_digest(self, found: str) -> None:
        """Raise RunError if the model here has another digest than the one that was sent."""
        if found != self.digest:
            raise RunError(
                f"{self}: this is not the model that was sent: its digest is {found[:12]}, and that of the model that "
                f"was sent {self.digest[:12]}; a path must lead to the same files in all processes"
            )


class NetFile(_FileSource):
    """A Caffe2 model in files; the digest is that of the nets that were read, whatever files they came from."""

    model: Model | None = None

    def given(self) -> Model:
        """See Source."""
        model = load(self.path)
        if self.digest:
            self._require_digest(_digest_of_net(model))
        else:
            self.model = model
        return model

    def sent(self) -> NetFile:
        """See Source."""
        if (model := self.model) is not None:
            self.digest, self.model = _digest_of_net(model), None
        return self


class GraphFile(_FileSource):
    """An ONNX model in a file, with its external data."""

    stamp: Any = None

    def given(self) -> Location:
        """See Source."""
        if self.digest:
            self._require_digest(_digest_of_graph(self.path))
        else:
            self.stamp = _stamp(locate(self.path))
        return self.path

    def sent(self) -> GraphFile:
        """See Source."""
        if not self.digest:
            digest = _digest_of_graph(self.path)
            if _stamp(locate(self.path)) != self.stamp:
                raise RunError(f"{self}: the file changed since it was loaded: load it again before it is sent")
            self.digest = digest
        return self


class NetInMemory(Source):
    """A Caffe2 model that was given as an object."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def given(self) -> Model:
        """See Source."""
        return self.model

    def sent(self) -> NetInMemory:
        """See Source."""
        size = self.model.init.stored_bytes
        if size > _LARGEST_NET:
            raise RunError(
                f"the model has {size:,} bytes, and at most {_LARGEST_NET:,} are sent to another process: "
                "make the Predictor of the path of the model"
            )
        return self

    def __str__(self) -> str:
        return self.model.source


class GraphInMemory(Source):
    """An ONNX model that was given as an object; it is kept if it is small."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._size = model.ByteSize() if isinstance(model, onnx.ModelProto) else 0
        if isinstance(model, bytes):
            self._size = len(model)
        self.content: bytes | None = None
        if self._size <= _LARGEST_GRAPH and isinstance(model, bytes | onnx.ModelProto):
            self.content = model if isinstance(model, bytes) else model.SerializeToString()

    def given(self) -> Any:
        """See Source."""
        model, self._model = self._model, None
        return self.content if model is None else model

    def sent(self) -> GraphInMemory:
        """See Source."""
        if self.content is None:
            raise RunError(
                f"the ONNX model has {self._size:,} bytes, and at most {_LARGEST_GRAPH:,} are kept in memory to be "
                "sent to another process: write it with save_onnx, and give its path"
            )
        return self

    def __reduce__(self) -> Any:
        return GraphInMemory, (self.content,)

    def __str__(self) -> str:
        return ""


def source_of(model: Any) -> Source:
    """Return the source of a model: of a Model, an ONNX model or its bytes, or a path or URL.

    Raises OptionError if the scheme of a URL is not accepted.
    """
    if isinstance(model, Source):
        return model
    if isinstance(model, Model):
        return NetInMemory(model)
    if not isinstance(model, str | os.PathLike):
        return GraphInMemory(model)
    return GraphFile(model) if is_onnx_file(locate(model)) else NetFile(model)


def graph_source(model: Any) -> Source:
    """Return the source of an ONNX model: of its bytes, or of a path with any suffix."""
    return GraphFile(model) if isinstance(model, str) else source_of(model)


def _stamp(path: AnyPath) -> Any:
    """Return what changes when a file is written or replaced; None if it cannot be read."""
    try:
        if not isinstance(path, Path):
            return path.version()
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _digest_of_net(model: Model) -> str:
    found = hashlib.sha256(model.predict_net.SerializeToString(deterministic=True))
    for chunk in model.init.serialized():
        found.update(chunk)
    return found.hexdigest()


def _digest_of_graph(path: Location) -> str:
    admitted = admit_file(path)
    found = hashlib.sha256()
    for name in (admitted.path, *admitted.data):
        with open_regular(Path(name)) as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()
