"""The operator that failed last, of which Caffe2's Python logs where the program added it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef

_UNKNOWN: Final = -1
# Nodes are named after outputs of the operator that they compute.
_NODE: Final = re.compile(r"Name:'([^']+?)(?:/\w+)?'")
_failed: WeakKeyDictionary[Workspace, int] = WeakKeyDictionary()


@contextmanager
def noting_failures(workspace: Workspace, net: NetDef | None) -> Iterator[None]:
    """Keep the index of the operator of a net that fails within the block."""
    try:
        yield
    except RunError as error:
        _failed[workspace] = _by_node(str(error), net) if error.operator is None else error.operator
        raise
    except ConversionError as error:
        located = [item.location.index for item in error.findings if item.location.index is not None]
        _failed[workspace] = located[0] if located else _UNKNOWN
        raise


def _by_node(message: str, net: NetDef | None) -> int:
    """Return the index of the operator whose ONNX node a message names."""
    node = _NODE.search(message)
    if node is None or net is None:
        return _UNKNOWN
    return next((index for index, op in enumerate(net.op) if node[1] in op.output), _UNKNOWN)


def last_failed_operator(workspace: Workspace) -> int:
    """Return the index, in its net, of the operator that failed last; -1 if it is not known."""
    return _failed.get(workspace, _UNKNOWN)
