"""Where onnxruntime's CUDA provider itself runs the nodes of a model, and which values it copies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx

from caffe2_backend.runtime.sessions.onnxruntime_library import missing_cuda, onnxruntime

CUDA: Final = "CUDAExecutionProvider"
CPU: Final = "CPUExecutionProvider"
_RECORD: Final = "session.record_ep_graph_assignment_info"
_MEMCPY: Final = {"MemcpyToHost", "MemcpyFromHost"}


@dataclass(frozen=True)
class Assignment:
    """The provider's own verdict on a model, bodies included: its nodes on the host, by name, and what it copies."""

    host_nodes: frozenset[str]
    copies: frozenset[str]


def assign(model: bytes, optimization: str = "ORT_DISABLE_ALL") -> Assignment:
    """Load a model with the CUDA provider, and read what it decided. Raises onnxruntime's errors if it refuses.

    Without optimizations the nodes are those of the model, so that a prediction can be compared with them by name.
    """
    assert not missing_cuda()  # loads the libraries
    library: Any = onnxruntime()
    options = library.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = getattr(library.GraphOptimizationLevel, optimization)
    options.add_session_config_entry(_RECORD, "1")
    with tempfile.TemporaryDirectory() as name:
        saved = Path(name) / "saved.onnx"
        options.optimized_model_filepath = str(saved)
        session = library.InferenceSession(model, options, providers=[CUDA, CPU])
        parts = session.get_provider_graph_assignment_info()
        copies = {
            value.removesuffix(f"_{CUDA}") for value in _copied(onnx.ModelProto.FromString(saved.read_bytes()).graph)
        }
    host = {node.name for part in parts if part.ep_name == CPU for node in part.get_nodes()}
    return Assignment(frozenset(host), frozenset(copies))


def _copied(graph: onnx.GraphProto) -> Iterator[str]:
    for node in graph.node:
        if node.op_type in _MEMCPY:
            yield node.input[0]
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _copied(body)
