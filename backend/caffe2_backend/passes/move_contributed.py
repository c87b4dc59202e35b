"""Complete what a model says of the domains of its nodes, as onnxruntime reads it."""

from __future__ import annotations

from typing import ClassVar, Final

from caffe2_backend.admission.signatures import schema_of
from caffe2_backend.definitions.family import MICROSOFT
from caffe2_backend.state import WORKING_OPSET, Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.domains import is_standard

# Those that onnxruntime registers in ONNX's domain, whatever its opset.
_MISPLACED: Final = frozenset({"LayerNormalization", "SimplifiedLayerNormalization"})


class MoveContributed(InPlacePass[Import]):
    """Give onnxruntime's own operators in ONNX's domain, which the opset does not have, the domain ``com.microsoft``.

    ONNX's converter of opsets ends at an operator of its domain that it does not know, and its inference at a node of a
    domain of which the model names no opset: the first one is meant. Where operators may be carried, all stay:
    onnxruntime knows its own in ONNX's domain only.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined"})
    ensures: ClassVar[frozenset[str]] = frozenset({"domains"})

    def __call__(self, state: Import) -> None:
        """Change the domains of the model's nodes."""
        if state.options.carries_nodes:
            return
        opsets = state.model.graph.opset_imports
        if "" not in opsets:
            opsets[""] = opsets.pop("ai.onnx", WORKING_OPSET)
        for node in all_nodes(state.model.graph):
            if not is_standard(node):
                opsets.setdefault(node.domain, 1)
            elif node.op_type in _MISPLACED and schema_of(node.op_type, opsets[""], "") is None:
                node.domain = MICROSOFT
                opsets.setdefault(MICROSOFT, 1)
