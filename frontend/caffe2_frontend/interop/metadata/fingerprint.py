"""Canonical bytes of the nodes that compute some values from others, in which names of values play no part.

The nodes are numbered in the order of a breadth-first traversal against the edges, which starts at the nodes of the
outputs (the roots). Edges are numbered as they are traversed. Each node is written as its domain, type, overload and
number of outputs, followed by one word for each operand, then its attributes by name:

* ``o<k>``: operand k of the Caffe2 operator; the traversal ends here (``o<k>>`` and the node, if it goes on);
* ``n<i>.<j>``: output j of node i;
* ``l<i>``: value i of an enclosing body, numbered as inputs of bodies and outputs of their nodes are met;
* ``c<digest>``: a small constant; ``-``: an omitted operand.

Both directions traverse in the same order, so the export can record at which edges (``cuts``) it meets which operand,
and the import stops at these edges in a graph whose values have other names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, MutableMapping, Sequence
from hashlib import blake2b
from typing import Final

import onnx_ir as ir

# The constants that converters emit are small; a larger one is a weight, which must be an operand.
_MAX_CONSTANT_BYTES: Final = 1 << 16

# From the number of an edge, its value and its reader: the index of the operand that the value is, or None.
Cut = Callable[[int, ir.Value, ir.Node], int | None]


class OpenRegionError(Exception):
    """The nodes read a value that is neither an operand nor computed by them, or there are too many nodes."""


class Region:
    """The traversal from some nodes (the roots) back to the operands of an operator.

    ``cut`` says at which edges an operand is met; a value that was met as an operand stays one. The traversal ends at
    operands, except at those in ``passed``, whose nodes belong to the region as well.

    Attributes:
        nodes: the nodes in the order of their numbers, the roots first.
        operands: the index of each value that was met as an operand.
        cuts: for each operand, the edge at which it was met first, and its index.
        parts: the canonical bytes.
    """

    def __init__(
        self, graph: ir.Graph, cut: Cut, passed: frozenset[int], digests: MutableMapping[ir.Value, str]
    ) -> None:
        self._graph = graph
        self._cut = cut
        self._passed = passed
        self._digests = digests
        self._numbers: dict[ir.Node, int] = {}
        self._local: dict[ir.Value, int] = {}
        self._edges = 0
        self.nodes: list[ir.Node] = []
        self.operands: dict[ir.Value, int] = {}
        self.cuts: list[tuple[int, int]] = []
        self.parts: list[bytes] = []

    def walk(self, roots: Sequence[ir.Node], most: int) -> None:
        """Traverse. Raises OpenRegionError if a node reads anything else, or there are more than ``most`` nodes."""
        for root in roots:
            self._number(root)
        done = 0
        while done < len(self.nodes):
            if len(self.nodes) > most:
                raise OpenRegionError
            self._node(self.nodes[done])
            done += 1

    def _number(self, node: ir.Node) -> int:
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return number

    def _node(self, node: ir.Node) -> None:
        # Operands are visited in order: this defines the numbers of edges and of nodes met for the first time.
        words = [f"{node.domain}|{node.op_type}|{node.overload}|{len(node.outputs)}"]
        words += [self._edge(value, node) for value in node.inputs]
        self.parts.append(" ".join(words).encode())
        for name in sorted(node.attributes):
            self._attribute(node.attributes[name], node)

    def _edge(self, value: ir.Value | None, reader: ir.Node) -> str:
        self._edges += 1
        if value is None:
            return "-"
        if value in self._local:
            return f"l{self._local[value]}"
        index = self.operands.get(value)
        if index is None:
            index = self._cut(self._edges, value, reader)
            if index is not None:
                self.operands[value] = index
                self.cuts.append((self._edges, index))
        if index is not None:
            return f"o{index}>{self._made(value)}" if index in self._passed else f"o{index}"
        return self._made(value)

    def _made(self, value: ir.Value) -> str:
        node = value.producer()
        if node is not None:
            if node.graph is not self._graph:
                raise OpenRegionError
            return f"n{self._number(node)}.{value.index()}"
        if value.const_value is None or value.is_graph_input() or value.const_value.nbytes > _MAX_CONSTANT_BYTES:
            raise OpenRegionError
        return f"c{contents(value, self._digests)}"

    def _attribute(self, attr: ir.Attr, node: ir.Node) -> None:
        if attr.is_ref():
            raise OpenRegionError
        self.parts.append(f"{attr.name}:{attr.type.name}".encode())
        match attr.type:
            case ir.AttributeType.GRAPH:
                self._body(attr.as_graph(), node)
            case ir.AttributeType.GRAPHS:
                for graph in attr.as_graphs():
                    self._body(graph, node)
            case ir.AttributeType.FLOAT:
                self.parts.append(struct.pack("<f", attr.as_float()))
            case ir.AttributeType.INT | ir.AttributeType.STRING | ir.AttributeType.INTS | ir.AttributeType.STRINGS:
                value = attr.value
                self.parts.append(repr(value if isinstance(value, int | str | bytes) else list(value)).encode())
            case ir.AttributeType.TENSOR:
                self.parts.append(tensor_digest(attr.as_tensor()).encode())
            case _:
                self.parts.append(ir.to_proto(attr).SerializeToString(deterministic=True))

    def _body(self, graph: ir.Graph, owner: ir.Node) -> None:
        self.parts.append(f"({len(graph.inputs)}".encode())
        for value in graph.inputs:
            self._local[value] = len(self._local)
        for node in graph:
            self._node(node)
            for value in node.outputs:
                self._local[value] = len(self._local)
        self.parts.append(" ".join([*(self._edge(value, owner) for value in graph.outputs), ")"]).encode())


def contents(value: ir.Value, digests: MutableMapping[ir.Value, str]) -> str:
    """Return the digest of the contents of a constant, cached in ``digests``."""
    found = digests.get(value)
    if found is None:
        assert value.const_value is not None
        found = digests[value] = tensor_digest(value.const_value)
    return found


def tensor_digest(tensor: ir.TensorProtocol) -> str:
    """Return the digest of a tensor: element type, dims and contents."""
    held = repr(tensor.numpy().tolist()).encode() if tensor.dtype == ir.DataType.STRING else tensor.tobytes()
    head = f"{int(tensor.dtype)}{list(tensor.shape.numpy())}".encode()
    return blake2b(head + held, digest_size=16).hexdigest()
