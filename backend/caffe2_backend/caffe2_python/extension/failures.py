"""The operator that failed last, of which Caffe2's Python logs where the program added it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from caffe2_backend.runtime.blob_workspace import Workspace
from caffe2_bridge.diagnostics import ConversionError, RunError

_UNKNOWN: Final = -1
_failed: WeakKeyDictionary[Workspace, int] = WeakKeyDictionary()


@contextmanager
def noting_failures(workspace: Workspace) -> Iterator[None]:
    """Keep the index of the operator that fails within the block."""
    try:
        yield
    except RunError as error:
        _failed[workspace] = _UNKNOWN if error.operator is None else error.operator
        raise
    except ConversionError as error:
        located = [item.location.index for item in error.findings if item.location.index is not None]
        _failed[workspace] = located[0] if located else _UNKNOWN
        raise


def last_failed_operator(workspace: Workspace) -> int:
    """The index, in its net, of the operator that failed last; -1 if it is not known."""
    return _failed.get(workspace, _UNKNOWN)
