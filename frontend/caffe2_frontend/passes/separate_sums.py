"""Keep sums in front of layer normalizations apart from them."""

from __future__ import annotations

from typing import ClassVar

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.state import Export


class SeparateSums(InPlacePass[Export]):
    """Compute the addition that a LayerNormalization normalizes as a Sum of two operands.

    onnxruntime fuses an Add and the LayerNormalization that follows to its SkipLayerNormalization, whose CPU kernel
    takes eight times as long as the two; it leaves a Sum alone.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph"})

    def __call__(self, state: Export) -> None:
        """Replace the additions, in bodies too."""
        model = state.model
        if model is None:
            return
        for node in all_nodes(model.graph):
            if node.op_type == "LayerNormalization" and node.domain == "" and node.inputs[0] is not None:
                addition = node.inputs[0].producer()
                if addition is not None and addition.op_type == "Add" and addition.domain == "":
                    addition.op_type = "Sum"
