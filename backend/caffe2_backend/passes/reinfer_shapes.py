"""What a file says of the values between its inputs and outputs, as far as nothing tells better."""

from __future__ import annotations

from typing import ClassVar

from caffe2_backend.passes.flatten import infer
from caffe2_backend.state import Import


class ForgetClaims:
    """Shapes that follow from the inputs take the place of those that the file gives for values in between.

    Exporters leave sizes of their example inputs there, where the inputs have open dims. What graphs and bodies declare
    to give stays.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"inlined", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"shapes inferred"})

    def __call__(self, state: Import) -> Import:
        """Infer anew; the model is this import's own, and is changed in place."""
        kept = {value for graph in state.model.graphs() for value in graph.outputs}
        values = [
            value
            for graph in state.model.graphs()
            for node in graph
            if node.domain in ("", "ai.onnx")
            for value in node.outputs
            if value.shape is not None and value not in kept
        ]
        claims = [value.shape for value in values]
        for value in values:
            value.shape = None
        infer(state.model)
        for value, claim in zip(values, claims, strict=True):
            if value.shape is None:
                value.shape = claim
        return state
