"""The folder of a model's external data: a local one, or a remote one whose files are fetched when they are named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from caffe2_backend.admission.external_data import Extent, ExternalDataError, check_spelling, extent_of, location_of
from caffe2_bridge import wire
from caffe2_bridge.storage import AnyPath, Location, RemotePath, StorageError, locate


@dataclass(frozen=True)
class Folder:
    """Where the external data of a model is searched.

    Attributes:
        local: the path of the folder; None if the model has none. Of a remote folder that of the local copies.
        remote: the remote folder. Files inside of it alone are fetched.
        fetched: those that were fetched, by relative path; their local copies exist as long as this object.
        embedded: the values of tensors without a location, which lie in the model's own file, by name.
    """

    local: str | None
    remote: RemotePath | None = None
    fetched: dict[str, RemotePath] = field(default_factory=dict)
    embedded: Mapping[str, wire.Span] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Location | None) -> Folder:
        """Return the folder at a path or URL."""
        if folder is None:
            return cls(None)
        where = locate(folder)
        if isinstance(where, RemotePath):
            return cls(os.fspath(where.copies), where)
        return cls(os.fspath(folder) or os.curdir)

    @classmethod
    def of_model(cls, model: AnyPath) -> Folder:
        """Return the folder that the file of a model is in."""
        return cls.of(model.parent)

    def extent_of(self, tensor: onnx.TensorProto) -> Extent | EmbeddedExtent:
        """Return where the values of an external tensor are. Raises ExternalDataError."""
        if tensor.name in self.embedded and not tensor.external_data:
            return EmbeddedExtent(self.embedded[tensor.name])
        if self.remote is not None:
            location = location_of(tensor)
            check_spelling(location)
            if location not in self.fetched:
                try:
                    file = self.remote / location
                    file.local()
                except (OSError, ValueError) as error:
                    reason = error.reason if isinstance(error, StorageError) else str(error)
                    raise ExternalDataError(f"file {location!r} cannot be read: {reason}") from None
                self.fetched[location] = file
        return extent_of(tensor, self.local)


@dataclass(frozen=True)
class AdmittedFile:
    """A model's file that was checked, and is there with its external data as long as this object exists.

    Attributes:
        path: of the file; of a remote one that of the local copy.
        data: the paths of its external data, sorted.
    """

    path: str
    file: AnyPath
    folder: Folder
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class EmbeddedExtent:
    """Bytes of the model's own file, which is mapped."""

    span: wire.Span

    @property
    def length(self) -> int:
        """The number of bytes."""
        return len(self.span)

    def read(self) -> bytes:
        """Return the bytes."""
        return self.span.tobytes()


def map_values(values: Mapping[str, ir.Value]) -> None:
    """Replace external tensors by ones that read files mapped now, whatever becomes of their paths. Raises OSError."""
    files: dict[str, wire.Buffer] = {}
    for value in values.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            path = os.fspath(tensor.path)
            if path not in files:
                files[path] = wire.Buffer.of_file(path)
            start, length = tensor.offset or 0, tensor.length if tensor.length is not None else tensor.nbytes
            value.const_value = mapped(tensor, wire.Span(files[path], start, start + length))


def mapped(tensor: ir.ExternalTensor, span: wire.Span) -> ir.LazyTensor:
    """Return an external tensor as one that reads its values from a mapped file."""
    dtype, dims = tensor.dtype, tensor.shape.numpy()

    def read() -> ir.TensorProtocol:
        proto = onnx.TensorProto(name=tensor.name, data_type=int(dtype), dims=dims, raw_data=span.tobytes())
        span.release()
        return ir.serde.TensorProtoTensor(proto)

    return ir.LazyTensor(read, dtype=dtype, shape=tensor.shape, name=tensor.name)
