"""Recognition of Caffe2 operators in exported ONNX models, if their nodes are unchanged since the export.

The export writes an operator's definition and a digest into the metadata of a node (its home), in the format of
``caffe2_frontend.interop.metadata.origin``. An operator is recognized only if

* the nodes that compute its outputs have that digest, which covers the definition too;
* its operands are of the types for which it was converted: the declared types of the graph's inputs and initializers,
  the types of outputs of recognized operators, and what ONNX infers of all other values;
* none of its operands has the name that another one had;
* constants that the conversion read have the same contents;
* Int8 tensors, which are plain bytes in ONNX, pass between restored operators only.

All other nodes are converted as those of any ONNX model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_backend.restore.restored_nodes import own_names, renamed_operators
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.proto.caffe2_pb2 import OperatorDef
from caffe2_frontend.interop.bodies import all_nodes, bodies, captured_values
from caffe2_frontend.interop.files.strip_weights import drop_generated_dim_names, without_weights
from caffe2_frontend.interop.inference.shape_inference import infer_shapes
from caffe2_frontend.interop.metadata.fingerprint import OpenRegionError, Region, contents
from caffe2_frontend.interop.metadata.origin import (
    ORIGIN_KEY,
    PART_KEY,
    Operand,
    Origin,
    OriginError,
    ValueType,
    blobs_of,
    digest_of,
    part_of,
    read_origin,
)
from caffe2_frontend.interop.types import Quantization

Dims: TypeAlias = tuple[int | str | None, ...]
_UNKNOWN: Final = (None, None)


@dataclass(frozen=True, eq=False)
class Match:
    """A recognized operator.

    Attributes:
        origin: the metadata that the export wrote.
        operands: the value of each operand; a tensor for one that is a constant inside of the nodes.
        outputs: the value of each output; None for one that no node computes.
        nodes: the nodes, the roots (which compute outputs) first.
        symbols: the dim of this model for each symbolic dim of the export's types.
        names: the names of the outputs, also of those that no node computes.
    """

    origin: Origin
    operands: tuple[ir.Value | ir.TensorProtocol | None, ...]
    outputs: tuple[ir.Value | None, ...]
    nodes: tuple[ir.Node, ...]
    symbols: dict[str, int | str | None] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[ir.Value | ir.TensorProtocol | None, ...]:
        """The operands that the operator itself reads."""
        return self.operands[: len(blobs_of(self.origin.operator)[0])]

    def typed(self) -> Iterator[tuple[ir.Value, ValueType]]:
        """Yield operands that are values of the graph, with the types for which the operator was converted."""
        for operand, value in zip(self.origin.operands, self.operands, strict=True):
            if operand.type is not None and isinstance(value, ir.Value):
                yield value, operand.type

    def made(self) -> Iterator[tuple[ir.Value, ValueType]]:
        """Yield outputs that nodes compute, with their types."""
        for output, value in zip(self.origin.outputs, self.outputs, strict=True):
            if output is not None and value is not None:
                yield value, output.type

    def dims(self, known: ValueType) -> Dims | None:
        """Return the dims of a type, with the symbolic dims of this model."""
        if known.dims is None:
            return None
        return tuple(self.symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in known.dims)


def find_operators(model: ir.Model) -> list[Match]:
    """Return the operators of the main graph that can be restored, in the order of their nodes, without changing it."""
    graph = model.graph
    homes = [node for node in graph if ORIGIN_KEY in node.metadata_props]
    if not homes:
        return []
    search = _Search(model)
    found = [match for home in homes if (match := search.match(home)) is not None]
    return search.without_mixed_bytes(found)


class _Search:
    """The recognition of one model's operators, in the order of the nodes: names and outputs are taken once."""

    def __init__(self, model: ir.Model) -> None:
        self.graph = model.graph
        self.order = {node: number for number, node in enumerate(model.graph)}
        self.types = _Types(model)
        self.digests: dict[ir.Value, str] = {}
        self.owned: set[ir.Value] = set()
        self.values = {str(value.name): value for value in _main_values(model.graph)}
        self.taken = {*self.values}
        self.parts: dict[str, list[ir.Node]] = {}
        for node in model.graph:
            if PART_KEY in node.metadata_props:
                self.parts.setdefault(node.metadata_props[PART_KEY], []).append(node)

    def match(self, home: ir.Node) -> Match | None:
        """Return the operator of which a node computes the first output; None if its nodes have changed."""
        try:
            digest, text, origin = read_origin(home.metadata_props[ORIGIN_KEY])
            found = self._recognized(home, origin, digest, text)
            if found is None or _is_read_inside(found) or not self.types.fit(found):
                return None
            return self._named(found)
        except (OriginError, OpenRegionError, DecodeError, BridgeError):
            return None

    def _recognized(self, home: ir.Node, origin: Origin, digest: str, text: str) -> Match | None:
        """Collect the nodes of an operator from its roots, and compare them with the digest.

        The walk goes from the roots to the operands, and stops at the recorded cuts: edges to values that were operands
        of the conversion. It must stop at the same cuts after the same number of nodes, and the digest of what it meets
        must be the recorded one.
        """
        # Further roots are marked with a part number of this digest, each exactly once.
        roots = [home]
        for number in range(1, min(origin.roots, len(self.order))):
            nodes = self.parts.get(part_of(digest, number), [])
            if len(nodes) != 1 or nodes[0] in roots:
                return None
            roots += nodes
        first = dict(origin.cuts)
        region = Region(self.graph, lambda edge, _, __: first.get(edge), frozenset(origin.passed), self.digests)
        region.walk(roots, origin.size)
        if region.cuts != origin.cuts or len(region.nodes) != origin.size:
            return None
        if digest_of(text, region.parts) != digest:
            return None
        met = {number: value for value, number in region.operands.items()}
        operands: list[ir.Value | ir.TensorProtocol | None] = []
        for number, operand in enumerate(origin.operands):
            operands.append(self._operand(operand, met.get(number), operands, roots[0]))
        if _are_exchanged(origin.operator, operands):
            return None
        # An output may belong to one operator only, and must not be one of the operands.
        outputs = []
        for out in origin.outputs:
            value = None if out is None else roots[out.root].outputs[out.index]
            if value is not None and (value in self.owned or value in outputs or value in operands):
                return None
            outputs.append(value)
        return Match(origin, tuple(operands), tuple(outputs), tuple(region.nodes))

    def _operand(
        self,
        operand: Operand,
        met: ir.Value | None,
        before: Sequence[ir.Value | ir.TensorProtocol | None],
        home: ir.Node,
    ) -> ir.Value | ir.TensorProtocol | None:
        """Return the value of an operand: an earlier one, a constant, a value by name, or one that was met."""
        if operand.same is not None:
            return before[operand.same]
        if operand.held:
            return ir.serde.deserialize_tensor(onnx.TensorProto.FromString(operand.held))
        if operand.type is None:
            return None
        value = self.values.get(operand.name) if operand.name else met
        if value is None:
            raise OpenRegionError
        maker = value.producer()
        if maker is not None and self.order.get(maker, len(self.order)) >= self.order[home]:
            raise OpenRegionError  # it may depend on an output of the operator
        if operand.contents and (value.const_value is None or contents(value, self.digests) != operand.contents):
            raise OpenRegionError
        return value

    def _named(self, found: Match) -> Match | None:
        """Return the match with names for all its outputs; None if another value has a name of its bodies."""
        definitions = found.origin.definitions
        own = {value for node in found.nodes for value in node.outputs}
        own.update(value for value in (*found.operands, *found.outputs) if isinstance(value, ir.Value))
        bound = [value is not None for value in found.inputs]
        kept = own_names(definitions, bound)
        if any(name in self.taken and self.values.get(name) not in own for name in kept):
            return None
        names = []
        for blob, value in zip(blobs_of(definitions[-1])[1], found.outputs, strict=True):
            names.append(self._fresh(blob) if value is None else str(value.name))
        inputs = [
            str(value.name) if isinstance(value, ir.Value) else (None if value is None else f"{blob}/held")
            for blob, value in zip(blobs_of(definitions[-1])[0], found.inputs, strict=True)
        ]
        renamed_operators(definitions, inputs, names)
        self.taken.update(kept, names)
        self.owned.update(value for value in found.outputs if value is not None)
        return Match(found.origin, found.operands, found.outputs, found.nodes, found.symbols, tuple(names))

    def _fresh(self, blob: str) -> str:
        name, count = blob, 1
        while name in self.taken:
            name = f"{blob}_{count}"
            count += 1
        self.taken.add(name)
        return name

    def without_mixed_bytes(self, found: list[Match]) -> list[Match]:
        """Return the matches without those that would mix Int8 tensors with plain bytes.

        A quantized value is mixed if a node that is not restored reads or computes it, or if two operators have
        different scales or zero points for it. Removing the matches that touch a mixed value may mix further values:
        repeat until none is left.
        """
        while True:
            how = _quantized(found)
            if not how:
                return found
            made = {value for match in found for value in match.outputs if value is not None}
            mixed = {value for value in _plainly_read(self.graph, found) if value in how}
            mixed |= {value for value in how if value.producer() is not None and value not in made}
            for match in found:
                pairs = [*match.typed(), *match.made()]
                mixed |= {value for value, known in pairs if value in how and known.quantization != how[value]}
            kept = [match for match in found if not mixed.intersection((*match.operands, *match.outputs))]
            if len(kept) == len(found):
                return found
            found = kept


def _are_exchanged(operator: OperatorDef, operands: Sequence[ir.Value | ir.TensorProtocol | None]) -> bool:
    """Whether an operand has the name that another one had, as after an exchange of the inputs of a node.

    Nodes may have the same digest then, and compute the same for operands of any sizes, while the operator is for
    operands in its own order: MaxPoolGradient returns what has the sizes of its first one. Blobs whose equal values
    were made one have one name.
    """
    values = dict(zip(blobs_of(operator)[0], operands, strict=False))
    return any(
        isinstance(value, ir.Value) and str(value.name) != blob and values.get(str(value.name), value) is not value
        for blob, value in values.items()
    )


def _is_read_inside(match: Match) -> bool:
    """Whether other nodes read a result of the roots that is not an output of the operator.

    The roots would have to stay. Nodes of a RecurrentNetworkGradient read such results of its forward operator.
    """
    inner = {
        value
        for root in match.nodes[: match.origin.roots]
        for value in root.outputs
        if value not in match.outputs and (value.uses() or value.is_graph_output())
    }
    if not inner:
        return False
    own = {*match.nodes}
    for node in match.nodes:
        for body in bodies(node):
            own.update(all_nodes(body))
    return any(value.is_graph_output() or any(use.node not in own for use in value.uses()) for value in inner)


class _Types:
    """The types of a model's values that follow from its inputs and nodes, whatever it declares for other values."""

    def __init__(self, model: ir.Model) -> None:
        self.model = model
        self.known: dict[ir.Value, tuple[ir.DataType | None, Dims | None]] = {}
        self._inferred: dict[str, tuple[ir.DataType | None, Dims | None]] | None = None

    def fit(self, match: Match) -> bool:
        """Whether the operands are of the types of the conversion; if so, the types of the outputs are recorded."""
        for value, wanted in match.typed():
            dtype, dims = self.of(value)
            if dtype != wanted.dtype or not _same_dims(wanted.dims, dims, match.symbols):
                return False
        for value, made in match.made():
            self.known[value] = (made.dtype, match.dims(made))
        return True

    def of(self, value: ir.Value) -> tuple[ir.DataType | None, Dims | None]:
        """Return the element type and the dims of a value."""
        if value in self.known:
            return self.known[value]
        if value.producer() is None:
            constant = value.const_value
            return value.dtype, _dims(value.shape if constant is None else ir.Shape(constant.shape.numpy()))
        if self._inferred is None:
            self._inferred = _inferred(self.model)
        return self._inferred.get(str(value.name), _UNKNOWN)


def _same_dims(wanted: Dims | None, actual: Dims | None, symbols: dict[str, int | str | None]) -> bool:
    """Whether dims fit the recorded ones: equal numbers, and one dim for each symbol, consistently in ``symbols``."""
    if wanted is None:
        return True
    if actual is None or len(actual) != len(wanted):
        return False
    for known, dim in zip(wanted, actual, strict=True):
        if isinstance(known, int) and known != dim:
            return False
        if isinstance(known, str) and symbols.setdefault(known, dim) != dim:
            return False
    return True


def _inferred(model: ir.Model) -> dict[str, tuple[ir.DataType | None, Dims | None]]:
    """Return the types that ONNX infers from the graph's inputs and initializers only."""
    proto = without_weights(model)
    _forget_types(proto.graph)
    try:
        inferred = infer_shapes(proto, data_prop=True)
    except onnx.shape_inference.InferenceError:  # of an operator in a domain without a version, among others
        return {}
    found: dict[str, tuple[ir.DataType | None, Dims | None]] = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        kind = ir.serde.deserialize_type_proto_for_type(info.type) if info.type.WhichOneof("value") else None
        if isinstance(kind, ir.TensorType):
            shape = drop_generated_dim_names(ir.serde.deserialize_type_proto_for_shape(info.type))
            found[info.name] = (kind.dtype, _dims(shape))
    return found


def _forget_types(graph: onnx.GraphProto) -> None:
    graph.ClearField("value_info")
    for info in graph.output:
        info.ClearField("type")
    for node in graph.node:
        for attr in node.attribute:
            for body in (attr.g, *attr.graphs):
                _forget_types(body)


def _dims(shape: ir.Shape | None) -> Dims | None:
    return None if shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in shape)


def _quantized(found: Sequence[Match]) -> dict[ir.Value, Quantization]:
    pairs = (pair for match in found for pair in (*match.made(), *match.typed()))
    how: dict[ir.Value, Quantization] = {}
    for value, known in pairs:
        if known.quantization is not None:
            how.setdefault(value, known.quantization)
    return how


def _plainly_read(graph: ir.Graph, found: Sequence[Match]) -> set[ir.Value]:
    """Return the values that the remaining nodes read once the operators are restored."""
    makers = {value: match for match in found for value in match.outputs if value is not None}
    read: set[ir.Value] = set()
    seen: set[ir.Value] = set()
    waiting = list(graph.outputs)
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        match, node = makers.get(value), value.producer()
        if match is not None:
            waiting += [operand for operand in match.inputs if isinstance(operand, ir.Value)]
        elif node is not None:
            own = [operand for operand in (*node.inputs, *captured_values(node)) if operand is not None]
            read.update(own)
            waiting += own
    return read


def _main_values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from graph.initializers.values()
    for node in graph:
        yield from (value for value in node.outputs if value.name)


def counted(found: Sequence[Match]) -> Counter[str]:
    """Return the number of matches for each operator type."""
    return Counter(match.origin.operator.type for match in found)
