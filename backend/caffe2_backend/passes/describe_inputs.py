"""Write what the options know of the inputs into the graph."""

from __future__ import annotations

from caffe2_backend.described_inputs import describe_inputs
from caffe2_backend.state import Import
from caffe2_bridge.passes import InPlacePass


class DescribeInputs(InPlacePass[Import]):
    """Give the graph's inputs the element types, shapes and sizes that the options describe.

    x: float[N,512]   with x=[1,512]   =>   x: float[1,512]
    """

    def __call__(self, state: Import) -> None:
        """Describe the inputs of the model."""
        graph = state.model.graph
        if state.options.described:
            inputs = [value for value in graph.inputs if not value.is_initializer()]
            others = [*graph.outputs, *(value for node in graph for value in node.outputs)]
            describe_inputs(inputs, dict.fromkeys(others), state.options.described)
