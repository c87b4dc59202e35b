"""What running a net means here, in addition to the run itself: checks, blobs that appear, linked tensors, failures."""

from __future__ import annotations

from typing import Any

from caffe2_backend.runtime.calls.blob_workspace import Workspace
from caffe2_backend.runtime.host.registry import require_known_operators
from caffe2_bridge.diagnostics import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_compat.extension.flags import check_finite
from caffe2_compat.extension.runs.failures import note_failure
from caffe2_compat.extension.values.torch_links import synchronize


class Running:
    """A block that runs a net, several or an operator; a class, since a generator takes as long as a tiny net."""

    __slots__ = ("_net", "_workspace")

    def __init__(self, workspace: Workspace, net: NetDef | None = None) -> None:
        self._workspace, self._net = workspace, net

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Note a failure; check and share what was written."""
        try:
            if error is None and self._net is not None:
                check_finite(self._workspace, self._net)
        except RunError as not_finite:
            note_failure(self._workspace, self._net, not_finite)
            raise
        if isinstance(error, ConversionError | RunError):
            note_failure(self._workspace, self._net, error)
        elif error is None:
            synchronize(self._workspace)


def read_net(content: Any) -> NetDef:
    """Parse a serialized net. Raises TypeError if it is not bytes, as Caffe2 does."""
    if not isinstance(content, bytes):
        raise TypeError(f"a net must be given as bytes, not {type(content).__name__}")
    return NetDef.FromString(content)


def create_operands(workspace: Workspace, net: NetDef) -> None:
    """Create the blobs that a net writes, as Caffe2 does when it creates the net.

    Raises RunError if an operator is not known, or an input of one exists neither in the workspace nor by an operator
    before it.
    """
    require_known_operators(net)
    for index, op in enumerate(net.op):
        for name in op.input:
            if not workspace.has_blob(name):
                error = RunError(f"op {op.type}: Encountered a non-existing input blob: {name}")
                error.operator = index
                raise error
        for name in op.output:
            workspace.create_blob(name)
