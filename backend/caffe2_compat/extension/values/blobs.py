"""Blobs and tensors, as objects that refer to a workspace."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace as BlobWorkspace
from caffe2_backend.runtime.calls.serialization import deserialize_blob, serialize_blob
from caffe2_backend.runtime.values import Array, DeviceTensor, Int8Tensor, NoBlobError
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import DeviceOption
from caffe2_compat.extension.values.tensors import TensorCPU
from caffe2_compat.extension.values.torch_links import feed_torch, fetch_torch

__all__ = ["Blob"]


def text(name: Any) -> str:
    """Return a name, which Caffe2's Python gives as text, bytes or a reference to a blob."""
    return name.decode() if isinstance(name, bytes) else str(name)


def fetch(workspace: BlobWorkspace, name: str) -> Any:
    """Copy a blob: an array, the bytes of a text, the parts of an Int8 tensor, or a description of another object.

    Raises NoBlobError if the blob does not exist.
    """
    try:
        value = workspace.fetch(name)
    except NoBlobError:
        if not workspace.has_blob(name):
            raise
        return f"{name}, a C++ native class of type nullptr (uninitialized).".encode()
    except RunError:
        found = workspace.host_object(name)
        if found is None:
            raise
        return f"{name}, a C++ native class of type {found.type_name}.".encode()
    return (value.data, value.scale, value.zero_point) if isinstance(value, Int8Tensor) else value


def feed(workspace: BlobWorkspace, name: str, value: Any, device_option: bytes | None) -> bool:
    """Set a blob. Raises RunError if the value is not an array, a text or an Int8 tensor."""
    option = None if device_option is None else DeviceOption.FromString(device_option)
    if isinstance(value, tuple) and hasattr(value, "zero_point"):
        value = Int8Tensor(*value)
    if not isinstance(value, np.ndarray | np.generic | Int8Tensor | str | bytes) and not hasattr(value, "__dlpack__"):
        raise RunError(
            "Unexpected type of argument - only numpy array or string are supported for feeding, "
            f"not {type(value).__name__}"
        )
    workspace.feed(name, value, option)
    return True


class Blob:
    """A blob of a workspace. ``feed`` and ``to_torch`` are added by ``caffe2.python.workspace``.

    Args:
        workspace: the workspace; None for one that only this blob is in.
        name: the blob's name in it.
    """

    def __init__(self, workspace: BlobWorkspace | None = None, name: str = "blob") -> None:
        self.workspace = BlobWorkspace() if workspace is None else workspace
        self.name = name

    def fetch(self) -> Any:
        """Copy the value."""
        return fetch(self.workspace, self.name)

    def _feed(self, arg: Any, device_option: bytes | None = None) -> bool:
        return feed(self.workspace, self.name, arg, device_option)

    def is_tensor(self) -> bool:
        """Whether the blob holds a tensor."""
        try:
            value = self.workspace.fetch(self.name, on_device=True)
        except RunError:
            return False
        return isinstance(value, np.ndarray | DeviceTensor)

    def tensor(self) -> TensorCPU:
        """Return the tensor; an empty one is made if the blob does not hold one."""
        if not self.is_tensor():
            self.workspace.feed(self.name, np.empty(0, np.float32))
        return TensorCPU(WorkspaceElements(self.workspace, self.name))

    def as_tensor(self) -> TensorCPU:
        """Return the tensor. Raises RunError if the blob does not hold one."""
        if not self.is_tensor():
            raise RunError(f"blob {self.name!r} is not a tensor")
        return TensorCPU(WorkspaceElements(self.workspace, self.name))

    def serialize(self, name: str) -> bytes:
        """Serialize the value as a BlobProto with a name."""
        return serialize_blob(self.workspace, self.name, text(name))

    def deserialize(self, content: bytes) -> None:
        """Set the value to that in a serialized BlobProto."""
        deserialize_blob(self.workspace, self.name, content)

    def _wrap_tensor_impl(self, handle: Any) -> None:
        """Set the value to that of a torch tensor, which the rewrites pass in place of a handle."""
        feed_torch(self.workspace, self.name, handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and other.workspace is self.workspace and other.name == self.name

    def __hash__(self) -> int:
        return hash((id(self.workspace), self.name))


class WorkspaceElements:
    """The elements of a tensor in a workspace."""

    def __init__(self, workspace: BlobWorkspace, name: str) -> None:
        self._workspace = workspace
        self._name = name

    def load(self) -> Array:
        """Return the elements themselves."""
        return self._workspace.host_array(self._name)

    def store(self, array: Array) -> None:
        """Replace the elements."""
        self._workspace.feed(self._name, array)

    def torch_tensor(self) -> Any:
        """Return a torch tensor that shares the elements."""
        return fetch_torch(self._workspace, self._name)
