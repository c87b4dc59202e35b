"""Move operators of onnxruntime that its optimizer writes into ONNX's domain to the domain of the others."""

from __future__ import annotations

from typing import ClassVar, Final

from caffe2_backend.definitions.family import MICROSOFT
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes

_MISPLACED: Final = frozenset({"SimplifiedLayerNormalization"})


class MoveContributed(InPlacePass[Import]):
    """Give onnxruntime's own operators in ONNX's domain the domain ``com.microsoft``.

    ONNX's converter of opsets ends at an operator of its domain that it does not know. Where operators may be carried,
    they stay: onnxruntime knows them in ONNX's domain only.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"domains"})

    def __call__(self, state: Import) -> None:
        """Change the domains of the model's nodes."""
        if state.options.carries_nodes:
            return
        for node in all_nodes(state.model.graph):
            if not node.domain and node.op_type in _MISPLACED:
                node.domain = MICROSOFT
                state.model.graph.opset_imports.setdefault(MICROSOFT, 1)
