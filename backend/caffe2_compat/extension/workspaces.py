"""Workspaces, and the functions on the current one."""

from __future__ import annotations

from typing import Any

from caffe2_backend import workspace as functions
from caffe2_backend.runtime.calls.blob_workspace import Workspace as BlobWorkspace
from caffe2_backend.runtime.calls.plan_runner import run_plan as run_plan_in
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import PlanDef
from caffe2_compat.extension.runs.failures import last_failed_operator
from caffe2_compat.extension.runs.running import Running, create_operands, read_net
from caffe2_compat.extension.values.blobs import Blob, feed, fetch, text
from caffe2_compat.workspace.named_workspaces import current as current_handle
from caffe2_compat.workspace.named_workspaces import use

__all__ = [
    "Net",
    "Workspace",
    "blobs",
    "create_blob",
    "create_child_workspace",
    "current_workspace",
    "deserialize_blob",
    "feed_blob",
    "fetch_blob",
    "get_blob_size_bytes",
    "has_blob",
    "local_blobs",
    "reset_blob",
    "reset_workspace",
    "root_folder",
    "serialize_blob",
    "switch_workspace",
    "workspaces",
]


class Net:
    """A net that was created in a workspace."""

    def __init__(self, workspace: BlobWorkspace, name: str) -> None:
        self._workspace = workspace
        self._name = name

    def run(self) -> None:
        """Run the net once."""
        with Running(self._workspace, self._workspace.net(self._name)):
            self._workspace.run_net(self._name)

    def cancel(self) -> None:
        """Do nothing: a run ends by itself."""


class _CurrentWorkspace(type):
    @property
    def current(cls) -> Workspace:
        """The current workspace."""
        return Workspace.of(current_handle())


class Workspace(metaclass=_CurrentWorkspace):
    """A workspace. ``run``, ``create_net``, ``feed_blob`` and ``remove_blob`` are added by ``caffe2.python.workspace``.

    Args:
        parent: a workspace whose blobs this one shares.
    """

    def __init__(self, parent: Workspace | None = None) -> None:
        self.handle: BlobWorkspace = BlobWorkspace(parent=None if parent is None else parent.handle)

    @classmethod
    def of(cls, handle: BlobWorkspace) -> Workspace:
        """Return a workspace of the runtime."""
        self = cls.__new__(cls)
        self.handle = handle
        return self

    @property
    def blobs(self) -> dict[str, Blob]:
        """The blobs by name."""
        return {name: Blob(self.handle, name) for name in self.handle.blobs()}

    @property
    def nets(self) -> dict[str, Net]:
        """The nets that were created, by name."""
        return {name: Net(self.handle, name) for name in self.handle.nets()}

    def create_blob(self, name: Any) -> Blob:
        """Create a blob, unless it exists."""
        self.handle.create_blob(text(name))
        return Blob(self.handle, text(name))

    def fetch_blob(self, name: Any) -> Any:
        """Copy a blob."""
        return fetch(self.handle, text(name))

    def has_blob(self, name: Any) -> bool:
        """Whether a blob exists."""
        return self.handle.has_blob(text(name))

    def _remove_blob(self, name: Any) -> bool:
        return self.handle.remove_blob(text(name))

    def _create_net(self, content: bytes, overwrite: bool = False) -> Net:
        net = read_net(content)
        with Running(self.handle, net):
            create_operands(self.handle, net)
            return Net(self.handle, self.handle.create_net(net, overwrite=overwrite))

    def _run_net(self, content: bytes) -> None:
        net = read_net(content)
        with Running(self.handle, net):
            create_operands(self.handle, net)
            self.handle.run_net_once(net)

    def _run_operator(self, content: bytes) -> None:
        with Running(self.handle):
            self.handle.run_operator_once(content)

    def _run_plan(self, content: bytes) -> None:
        with Running(self.handle):
            run_plan_in(self.handle, PlanDef.FromString(content))

    def _last_failed_op_net_position(self) -> int:
        return last_failed_operator(self.handle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workspace) and other.handle is self.handle

    def __hash__(self) -> int:
        return id(self.handle)


def current_workspace() -> str:
    """Return the name of the current workspace."""
    return functions.CurrentWorkspace()


def switch_workspace(workspace: Any, create_if_missing: Any = None) -> None:
    """Make another workspace the current one, given by name or as an object."""
    if isinstance(workspace, Workspace):
        use(workspace.handle)
    else:
        functions.SwitchWorkspace(text(workspace), create_if_missing=bool(create_if_missing))


def workspaces() -> list[str]:
    """Return the names of all workspaces."""
    return functions.Workspaces()


def create_child_workspace(parent_ws_name: str, child_ws_name: str) -> None:
    """Create a named workspace that shares the blobs of another. Raises RunError if that does not exist."""
    functions.CreateChildWorkspace(text(parent_ws_name), text(child_ws_name))


def reset_workspace(root_folder: str | None = None) -> bool:
    """Remove all blobs and nets of the current workspace."""
    return functions.ResetWorkspace(root_folder)


def root_folder() -> str:
    """Return the root folder of the current workspace."""
    return functions.RootFolder()


def blobs() -> list[str]:
    """Return the names of the blobs of the current workspace."""
    return current_handle().blobs()


def local_blobs() -> list[str]:
    """Return the same without those of its parent."""
    return current_handle().local_blobs()


def create_blob(name: Any) -> bool:
    """Create a blob in the current workspace, unless it exists."""
    current_handle().create_blob(text(name))
    return True


def reset_blob(name: Any) -> None:
    """Remove the value of a blob."""
    functions.ResetBlob(text(name))


def has_blob(name: Any) -> bool:
    """Whether the current workspace has a blob."""
    return current_handle().has_blob(text(name))


def fetch_blob(name: Any) -> Any:
    """Copy a blob of the current workspace."""
    return fetch(current_handle(), text(name))


def feed_blob(name: Any, arg: Any, device_option: bytes | None = None) -> bool:
    """Set a blob of the current workspace."""
    return feed(current_handle(), text(name), arg, device_option)


def serialize_blob(name: Any) -> bytes:
    """Serialize a blob of the current workspace as a BlobProto."""
    return functions.SerializeBlob(text(name))


def deserialize_blob(name_or_content: Any, content: bytes | None = None) -> Blob | None:
    """Set a blob of the current workspace to the value in a BlobProto; without a name, return a blob of its own."""
    if content is not None:
        functions.DeserializeBlob(text(name_or_content), content)
        return None
    if not isinstance(name_or_content, bytes):
        raise RunError("a serialized blob must be bytes")
    blob = Blob()
    blob.deserialize(name_or_content)
    return blob


def get_blob_size_bytes(name: Any) -> int:
    """Return the size of a tensor's elements in bytes."""
    return functions.GetBlobSizeBytes(text(name))
