"""Flags of Caffe2's command line that ``global_init`` gets and that matter here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

__all__ = ["global_init"]

_THROW: Final = "--caffe2_operator_throw_if_fp_exceptions"
_TRUE: Final = frozenset({"1", "true", "yes", ""})
_set: Final[set[str]] = set()


def global_init(args: Sequence[Any] = ()) -> None:
    """Read the flags; all others configure Caffe2's own logging and threads, and are ignored."""
    for arg in map(str, args):
        name, _, value = arg.partition("=")
        if name == _THROW:
            (_set.add if value.lower() in _TRUE else _set.discard)(name)


def check_finite(workspace: Workspace, net: NetDef) -> None:
    """Raise RunError if the flag asks for it and a net made elements that are not finite from such as are."""
    if _THROW not in _set:
        return
    made = {name for op in net.op for name in op.output}
    read = {name for op in net.op for name in op.input} - made
    if _all_finite(workspace, read) and not _all_finite(workspace, made):
        raise RunError(f"net {net.name!r} raised floating point exceptions: an output is infinite or not a number")


def _all_finite(workspace: Workspace, names: Iterable[str]) -> bool:
    for name in names:
        try:
            value = workspace.fetch(name)
        except RunError:  # without a value, or not a tensor
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            return False
    return True
