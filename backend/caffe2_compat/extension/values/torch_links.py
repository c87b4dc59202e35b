"""Blobs that share their values with torch tensors, in both directions, as Caffe2's blobs do.

A blob holds a link to the tensor, whose memory nets read. A net that overwrites the blob makes another array: after the
run it is copied to the tensor, and the link is put back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from caffe2_backend.runtime.blobs.results import DeferredBlob
from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.values import Array
from caffe2_bridge.diagnostics import RunError


class TorchLink(NamedTuple):
    """A torch tensor on the host, and the value that a blob has as long as it is that of the tensor."""

    tensor: Any
    value: DeferredBlob


def _link(tensor: Any) -> TorchLink:
    def read(_: str) -> Array:
        array: Array = tensor.detach().numpy()
        return array

    return TorchLink(tensor, DeferredBlob(read, keeps=False))


_links: Final[WeakKeyDictionary[Workspace, dict[str, TorchLink]]] = WeakKeyDictionary()


def feed_torch(workspace: Workspace, name: str, tensor: Any) -> None:
    """Set a blob to a torch tensor; one on the host is linked, of another only the memory is shared."""
    if tensor.device.type != "cpu" or tensor.layout.__repr__() != "torch.strided":
        workspace.feed(name, tensor)
        return
    link = _link(tensor)
    workspace.set_deferred(name, link.value)
    _links.setdefault(workspace, {})[name] = link


def fetch_torch(workspace: Workspace, name: str) -> Any:
    """Return a torch tensor that shares the elements of a blob with it."""
    import torch

    link = _links.get(workspace, {}).get(name)
    if link is not None and workspace.holds(name, link.value):
        return link.tensor
    value = workspace.fetch(name, on_device=True)
    if not isinstance(value, np.ndarray):
        return torch.utils.dlpack.from_dlpack(value)
    tensor = torch.from_numpy(value).clone()  # memory of its own, which can be resized
    feed_torch(workspace, name, tensor)
    return tensor


def _written(workspace: Workspace, name: str) -> Any:
    """Return the value of a blob as a torch tensor; None if it is not a tensor of numbers."""
    import torch

    try:
        array = workspace.host_array(name)
    except RunError:
        return None
    return None if array.dtype == object else torch.from_numpy(array)


def synchronize(workspace: Workspace) -> None:
    """Copy what nets wrote to blobs to the tensors that are linked to them."""
    links = _links.get(workspace)
    if not links:
        return
    import torch

    for name, link in list(links.items()):
        if workspace.holds(name, link.value):
            continue
        written = _written(workspace, name)
        if written is None or written.dtype != link.tensor.dtype:
            del links[name]
            continue
        with torch.no_grad():
            link.tensor.resize_(written.shape).copy_(written)
        workspace.set_deferred(name, link.value)
