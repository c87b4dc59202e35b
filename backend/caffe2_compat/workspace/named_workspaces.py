"""Named workspaces, of which one is current for the whole process."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import RunError

_DEFAULT: Final = "default"
_lock = threading.Lock()
_workspaces: dict[str, Workspace] = {_DEFAULT: Workspace()}
_current: list[str] = [_DEFAULT]
_unnamed: list[Workspace] = []  # the current workspace if it has no name
_device: list[str | None] = [None]


def current() -> Workspace:
    """Return the current workspace, for everything that Caffe2's functions do not cover."""
    return _unnamed[0] if _unnamed else _workspaces[_current[0]]


def CurrentWorkspace() -> str:
    """Return the name of the current workspace."""
    return _current[0]


def SwitchWorkspace(name: str, create_if_missing: bool = False) -> None:
    """Make another workspace the current one. Raises RunError if it does not exist, unless ``create_if_missing``."""
    with _lock:
        if name not in _workspaces:
            if not create_if_missing:
                raise RunError(f"workspace {name!r} does not exist")
            _workspaces[name] = Workspace(_device[0])
        _unnamed.clear()
        _current[0] = name


def use(workspace: Workspace) -> None:
    """Make a workspace that has no name the current one; one that has a name is found by it."""
    with _lock:
        name = next((name for name, named in _workspaces.items() if named is workspace), None)
        _unnamed[:] = [] if name is not None else [workspace]
        if name is not None:
            _current[0] = name


def CreateChildWorkspace(parent: str, child: str) -> None:
    """Create a workspace that shares the blobs of another, or replace it.

    Raises RunError if the parent does not exist.
    """
    with _lock:
        if parent not in _workspaces:
            raise RunError(f"workspace {parent!r} does not exist")
        _workspaces[child] = Workspace(_device[0], parent=_workspaces[parent])


def Workspaces() -> list[str]:
    """Return the names of all workspaces."""
    with _lock:
        return list(_workspaces)


def ResetWorkspace(root_folder: str | None = None) -> bool:
    """Remove all blobs and nets of the current workspace.

    Args:
        root_folder: the new root folder, which is created if it is missing; None keeps the present one.
    """
    if root_folder is not None:
        Path(root_folder).mkdir(parents=True, exist_ok=True)
        current().root_folder = root_folder
    current().reset()
    return True


def SetDevice(device: str | None) -> None:
    """Choose the device of all workspaces and predictors from now on. Caffe2 does not have this function.

    ``cpu`` ignores device options; ``cuda:N`` runs nets without device options there, and others with this GPU in place
    of those that they name. None follows the options of nets, or ignores them on a machine without a GPU: the default.
    Raises RunError if the device is not available.
    """
    with _lock:
        for workspace in _workspaces.values():
            workspace.set_device(device)
        _device[0] = device


def chosen_device() -> str | None:
    """Return the device that :func:`SetDevice` chose."""
    return _device[0]


def RootFolder() -> str:
    """Return the root folder of the current workspace, ``.`` at first: where operators find relative paths of files."""
    return current().root_folder


@contextmanager
def WorkspaceGuard(workspace_name: str) -> Iterator[None]:
    """Make another workspace the current one within a block."""
    before = CurrentWorkspace()
    SwitchWorkspace(workspace_name, create_if_missing=True)
    try:
        yield
    finally:
        SwitchWorkspace(before)


def GlobalInit(args: Sequence[str] = ()) -> bool:
    """Do nothing: the arguments configure Caffe2's own logging and threads."""
    del args
    return True
