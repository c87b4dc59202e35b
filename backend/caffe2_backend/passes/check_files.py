"""Weights in files of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import ClassVar

import onnx_ir as ir

from caffe2_backend.state import Import
from caffe2_bridge.diagnostics import Diagnostic, Location


class CheckFiles:
    """Find external data that is not there, or that lies outside of the model's folder."""

    requires: ClassVar[frozenset[str]] = frozenset()
    ensures: ClassVar[frozenset[str]] = frozenset({"files"})

    def __call__(self, state: Import) -> Import:
        """The same state, with the findings."""
        found = []
        for graph in state.model.graphs():
            place = Location(graph.name or "graph")
            for value in graph.initializers.values():
                tensor = value.const_value
                reason = _fault(tensor) if isinstance(tensor, ir.ExternalTensor) else ""
                if reason:
                    found.append(Diagnostic("external-data", f"initializer {value.name!r}: {reason}", place))
        return replace(state, findings=(*state.findings, *found))


def _fault(tensor: ir.ExternalTensor) -> str:
    location = PurePosixPath(str(tensor.location).replace("\\", "/"))
    if location.is_absolute() or ".." in location.parts:
        return f"its values are said to lie outside of the model's folder, at {str(location)!r}"
    path = Path(tensor.base_dir or ".") / location
    if path.is_symlink():
        return f"the file of its values, {str(location)!r}, is a link"
    if not path.is_file():
        return f"the file of its values, {str(location)!r}, is not there"
    offset, length = tensor.offset or 0, tensor.length if tensor.length is not None else tensor.nbytes
    if offset < 0 or length < tensor.nbytes or offset + length > path.stat().st_size:
        return f"its values do not fit in the file {str(location)!r}"
    return ""
