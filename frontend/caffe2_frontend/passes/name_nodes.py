"""Name the nodes after the Caffe2 operators that they were converted from."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_nodes
from caffe2_frontend.interop.metadata.origin import LOCATION_KEY
from caffe2_frontend.interop.names import Names
from caffe2_frontend.lowering.trace import Label
from caffe2_frontend.state import Export


class NameNodes(InPlacePass[Export]):
    """Give every node, in bodies too, a unique name that tells its Caffe2 operator.

    The node that computes the first output of an operator has the operator's own name, or, where it has none,
    ``<first output>/<type>``. The other nodes of the operator add their ONNX type: ``<name>/<ONNX type>``. Numbers
    keep names unique: ``<name>_1``. A node without an operator is named after its first output.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "pruned", "opset"})
    ensures: ClassVar[frozenset[str]] = frozenset({"nodes_named"})

    def __call__(self, state: Export) -> None:
        """Name the nodes of the model."""
        if state.model is None:
            return
        labels = state.traces.labels
        nodes = list(all_nodes(state.graph))
        locations = [node.metadata_props.get(LOCATION_KEY) for node in nodes]
        counts = Counter(locations)
        names = Names()
        others: list[tuple[ir.Node, str]] = []
        for node, location in zip(nodes, locations, strict=True):
            label = None if location is None else labels.get(location)
            if label is not None and counts[location] == 1:
                node.name = names.fresh(label.name)
                continue
            base, is_main = _base(node, label)
            if is_main:
                node.name = names.fresh(base)
            else:
                others.append((node, base))
        for node, base in others:
            node.name = names.fresh(f"{base}/{node.op_type}")


def _base(node: ir.Node, label: Label | None) -> tuple[str, bool]:
    """Return the name of the node's operator, and whether the node is the one of several that has this name."""
    if label is None:
        return next((value.name for value in node.outputs if value.name), node.op_type), False
    first = None if label.value is None else label.value.name
    return label.name, any(value.name == first for value in node.outputs)
