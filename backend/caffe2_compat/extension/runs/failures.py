"""The operator that failed last, of which Caffe2's Python logs where the program added it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.sessions.failure_text import failed_node
from caffe2_backend.runtime.values import Int8Tensor
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef

_UNKNOWN: Final = -1
_failed: WeakKeyDictionary[Workspace, int] = WeakKeyDictionary()


def note_failure(workspace: Workspace, net: NetDef | None, error: ConversionError | RunError) -> None:
    """Keep the index of the operator of a net that failed, and add its inputs to the error."""
    index = _failed[workspace] = _index(error, net)
    if net is not None and 0 <= index < len(net.op):
        error.add_note(_inputs(workspace, net.op[index]))


def _index(error: ConversionError | RunError, net: NetDef | None) -> int:
    if isinstance(error, ConversionError):
        located = (item.location.outermost.index for item in error.errors)
        return next((index for index in located if index is not None), _UNKNOWN)
    return _by_node(str(error), net) if error.operator is None else error.operator


def _inputs(workspace: Workspace, op: OperatorDef) -> str:
    """Return the types and shapes of the inputs that are tensors, in one line."""
    found = []
    for name in op.input:
        with suppress(RunError):  # absent, without a value, or not a tensor
            value = workspace.fetch(name)
            array = value.data if isinstance(value, Int8Tensor) else value
            if isinstance(array, np.ndarray):
                found.append(f"{name} {array.dtype.name}{list(array.shape)}")
    return f"Inputs of {op.type}: {', '.join(found) or 'no tensors'}"


def _by_node(message: str, net: NetDef | None) -> int:
    """Return the index of the operator whose ONNX node a message names."""
    node = failed_node(message)
    if node is None or net is None:
        return _UNKNOWN
    made = {node, node.rpartition("/")[0]}  # nodes are named after outputs of their operator, which a suffix may follow
    return next((index for index, op in enumerate(net.op) if made & {*op.output}), _UNKNOWN)


def last_failed_operator(workspace: Workspace) -> int:
    """Return the index, in its net, of the operator that failed last; -1 if it is not known."""
    return _failed.get(workspace, _UNKNOWN)
