"""Caffe2's immediate mode: operators that run at once, in a workspace of their own, for debugging."""
# ruff: noqa: N802 - Caffe2's names

from __future__ import annotations

import shutil
import tempfile
from typing import Any, Final

from google.protobuf.message import Message

from caffe2_backend.runtime.values import Array
from caffe2_compat.workspace.blob_access import Blobs, FeedBlob, FetchBlob
from caffe2_compat.workspace.named_workspaces import ResetWorkspace, WorkspaceGuard
from caffe2_compat.workspace.nets import RunOperatorOnce

_WORKSPACE: Final = "_CAFFE2_IMMEDIATE"
_folders: list[str] = []  # the root folder while the mode is on


def IsImmediate() -> bool:
    """Whether immediate mode is on."""
    return bool(_folders)


def StartImmediate(i_know: bool = False) -> None:
    """Turn immediate mode on, with an empty workspace; ``i_know`` is ignored, as no warning is printed."""
    del i_know
    StopImmediate()
    _folders.append(tempfile.mkdtemp())
    with WorkspaceGuard(_WORKSPACE):
        ResetWorkspace(_folders[0])


def StopImmediate() -> None:
    """Turn immediate mode off, and remove its blobs; no operation if it is off."""
    if not IsImmediate():
        return
    with WorkspaceGuard(_WORKSPACE):
        ResetWorkspace()
    shutil.rmtree(_folders.pop(), ignore_errors=True)


def ImmediateBlobs() -> list[str]:
    """Return the names of the blobs of immediate mode."""
    with WorkspaceGuard(_WORKSPACE):
        return Blobs()


def RunOperatorImmediate(op: Message | bytes) -> None:
    """Run one operator in the workspace of immediate mode."""
    with WorkspaceGuard(_WORKSPACE):
        RunOperatorOnce(op)


def FetchImmediate(name: object) -> Array | bytes:
    """Copy a blob of immediate mode."""
    with WorkspaceGuard(_WORKSPACE):
        return FetchBlob(name)


def FeedImmediate(name: object, arr: Any, device_option: Message | None = None) -> bool:
    """Set a blob of immediate mode."""
    with WorkspaceGuard(_WORKSPACE):
        return FeedBlob(name, arr, device_option)
