"""Name the nodes after the Caffe2 operators that they were converted from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import bodies
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
        nodes = list(_nodes(state.graph))
        counts = Counter(node.metadata_props.get(LOCATION_KEY) for node in nodes)
        names = Names()
        others: list[tuple[ir.Node, str]] = []
        for node in nodes:
            base, is_main = _base(node, labels, counts)
            if is_main:
                node.name = names.fresh(base)
            else:
                others.append((node, base))
        for node, base in others:
            node.name = names.fresh(f"{base}/{node.op_type}")


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """All nodes, each followed by those of its bodies."""
    for node in graph:
        yield node
        if node.attributes:
            for body in bodies(node):
                yield from _nodes(body)


def _base(node: ir.Node, labels: Mapping[str, Label], counts: Counter[str | None]) -> tuple[str, bool]:
    """The name of the node's operator, and whether the node is the one that has this name."""
    location = node.metadata_props.get(LOCATION_KEY)
    label = None if location is None else labels.get(location)
    if label is None:
        return next((value.name for value in node.outputs if value.name), node.op_type), False
    if counts[location] == 1:
        return label.name, True
    first = None if label.value is None else label.value.name
    return label.name, any(value.name == first for value in node.outputs)
