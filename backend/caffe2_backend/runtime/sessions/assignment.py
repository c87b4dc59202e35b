"""Where onnxruntime's provider for a GPU itself runs the nodes of a model, and which values it copies."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from caffe2_backend.runtime.sessions.model_session import is_small, model_session
from caffe2_backend.runtime.sessions.session_options import DEFAULTS, SessionOptions
from caffe2_frontend.interop.bodies import proto_nodes

_RECORD: Final = "session.record_ep_graph_assignment_info"
_SIDE: Final = re.compile("_(CUDA|WebGpu)ExecutionProvider$")  # in the name of a copy on that side
_MEMCPY: Final = {"MemcpyToHost", "MemcpyFromHost"}


@dataclass(frozen=True)
class Assignment:
    """The provider's own verdict on a model, bodies included: its nodes on the host, by name, and what it copies."""

    host_nodes: frozenset[str]
    copies: frozenset[str]


def assign(model: ir.Model | onnx.ModelProto, device: str, options: SessionOptions = DEFAULTS) -> Assignment:
    """Load a model for a device, and return what its provider decided.

    Without optimizations the nodes are those of the model, which the result names. The copies within a model that no
    message can hold are not found out.

    Raises RunError if onnxruntime cannot load the model.
    """
    with tempfile.TemporaryDirectory(prefix="caffe2-bridge-") as folder:
        saved = Path(folder) / "assigned.onnx"
        how = dataclasses.replace(
            options, optimization="none", optimized=str(saved) if is_small(model) else "",
            entries={**options.entries, _RECORD: "1"},
        )  # fmt: skip
        host_nodes = model_session(model, device, how).host_nodes()
        copies = frozenset(_copied(saved) if saved.exists() else ())
    return Assignment(host_nodes, copies)


def _copied(saved: Path) -> Iterator[str]:
    for node in proto_nodes(onnx.ModelProto.FromString(saved.read_bytes()).graph):
        if node.op_type in _MEMCPY:
            yield _SIDE.sub("", node.input[0])
