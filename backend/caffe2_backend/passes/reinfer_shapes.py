"""Infer the shapes of intermediate values again, ignoring those that the file declares."""

from __future__ import annotations

from typing import ClassVar

from caffe2_backend.passes.flatten import infer, make_names_unique
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.operators import LOOPS


class ReinferShapes(InPlacePass[Import]):
    """Replace the declared shapes of intermediate values by those that follow from the inputs.

    Exporters leave the sizes of their example inputs there, although the inputs have symbolic dims. The declared shapes
    of the graph's outputs stay, those of results of loops' bodies (see InferLoopShapes), and those of values whose
    shape cannot be inferred.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"shapes inferred"})

    def __call__(self, state: Import) -> None:
        """Infer the shapes of the model's values again."""
        make_names_unique(state.model)  # inference finds values by name
        kept = {value for value in state.model.graph.outputs if not value.uses()}
        for node in all_nodes(state.model.graph):
            if node.op_type in LOOPS and is_standard(node):
                kept.update(node.attributes["body"].as_graph().outputs)
        values = [
            value
            for node in all_nodes(state.model.graph)
            if is_standard(node)
            for value in node.outputs
            if value.shape is not None and value not in kept
        ]
        declared = [value.shape for value in values]
        for value in values:
            value.shape = None
        infer(state.model)
        for value, shape in zip(values, declared, strict=True):
            if value.shape is None:
                value.shape = shape
