"""Record the definition of each Caffe2 operator in the metadata of the ONNX nodes that it was converted to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_bridge.cached import cached_property
from caffe2_bridge.netdef.parameters import Array
from caffe2_bridge.passes import InPlacePass
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.emit.int8_values import find_quantization
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.interop.metadata.fingerprint import OpenRegionError, Region, contents
from caffe2_frontend.interop.metadata.origin import (
    LOCATION_KEY,
    ORIGIN_KEY,
    PART_KEY,
    Operand,
    Origin,
    Output,
    blobs_of,
    digest_of,
    listed_blobs,
    origin_text,
    part_of,
)
from caffe2_frontend.interop.operators import SIZED_BY_NUMBERS
from caffe2_frontend.lowering.reads import count_reads
from caffe2_frontend.lowering.trace import Trace
from caffe2_frontend.passes.metadata.alike_origins import AlikeOrigins, ValueTypes, as_written
from caffe2_frontend.state import Export

logger = logging.getLogger(__name__)

Blobs = Mapping[str, ir.Value | None]

# An upper limit on the nodes that an operator shares with others, such as those that measure a dim.
_MOST_SHARED: Final = 64
# Constants of the nodes are recorded with the operator up to this size.
_MAX_HELD_BYTES: Final = 4096
# Integers up to this size may determine shapes, as may all numbers that these nodes read.
_MAX_CHECKED_BYTES: Final = 1 << 16
# Operators whose conversion inspects the nodes before them.
_LOOK_BACK: Final = frozenset({"RecurrentNetwork"})


class RecordOrigins(InPlacePass[Export]):
    """Write into the nodes of each operator what the import needs to restore the operator from them.

    Operators of which no node is left, or whose operands were replaced (repacked weights), get no origin: the import
    converts their nodes one by one. Nor do those of a model in half precision.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "folded", "pruned", "opset", "sunk"})
    ensures: ClassVar[frozenset[str]] = frozenset({"origins"})

    def __call__(self, state: Export) -> None:
        """Write the metadata of the model's nodes."""
        if state.options.fp16:
            return  # the operators have other values than the nodes
        recorder = _Recorder(state)
        for trace, (reads, writes) in zip(state.traces.ops, recorder.operands, strict=True):
            recorder.record(trace, reads, writes)


class _Recorder:
    def __init__(self, state: Export) -> None:
        self.net = state.predict
        self.graph = state.graph
        self.parameters = state.init.parameters.keys() - state.inputs.keys()
        self.made = {name for op in state.init.rest for name in op.outputs}
        self.bound = state.traces.blobs
        bound = [self.bound, state.traces.given, *(trace.before for trace in state.traces.ops if trace.before)]
        # A conversion to another opset creates all values anew. The one to earlier opsets forgets their types and
        # shapes, and the one to later opsets those of the nodes that it replaces.
        is_earlier = state.opset < state.working_opset
        known = {
            value.name or "": value
            for blobs in (bound if state.opset != state.working_opset else ())
            for value in blobs.values()
            if value is not None and (is_earlier or not _is_typed(self.values.get(value.name or "")))
        }
        self.blobs = self._now(self.bound)
        self.given = self._now(state.traces.given)
        # An operator that was converted, and has no values before it, is plain.
        self.operands = [(listed_blobs if trace.before is None else blobs_of)(trace.op) for trace in state.traces.ops]
        traces = zip(state.traces.ops, self.operands, strict=True)
        self.writers = {blob: trace for trace, (_, writes) in traces for blob in writes}
        self.owned: set[ir.Value] = set()
        self.digests: dict[ir.Value, str] = {}
        self.users: Counter[str] | None = None
        self.type_of = ValueTypes(known)
        self.alike = AlikeOrigins(self.type_of)

    @cached_property
    def own(self) -> Counter[str]:
        """How many nodes have each location."""
        return Counter(node.metadata_props.get(LOCATION_KEY, "") for node in self.graph)

    @cached_property
    def values(self) -> dict[str, ir.Value]:
        """The values of the finished graph by name."""
        return _values(self.graph)

    def _now(self, blobs: Blobs) -> dict[str, ir.Value | None]:
        """Return the values of the finished graph with the names of these: passes replaced values, but kept names."""
        graph = self.graph
        return {
            blob: value if value.graph is graph else self.values.get(value.name or "")
            for blob, value in blobs.items()
            if value is not None
        }

    def record(self, trace: Trace, reads: Sequence[str], writes: Sequence[str]) -> None:
        """Write the origin of one operator, if its nodes determine it."""
        before = self.blobs if trace.before is None else self._now(trace.before)
        values = [before.get(blob) for blob in reads]
        outputs: list[ir.Value | None] = []
        for blob in writes:
            value = self.given.get(blob) or self.blobs.get(blob)
            if self.writers[blob] is not trace:  # a blob that is updated in place has the last operator's value
                value = None
            if value is None or value.producer() is None or value in self.owned or value in values:
                outputs.append(None)
            else:
                self.owned.add(value)
                outputs.append(value)
        if any(outputs):
            try:
                key = self.alike.key(trace, values, outputs)
                if key is None or not self.alike.write(key, as_written(trace.op), outputs):
                    conditions, parts = self._write(trace, _Reads(self, trace, reads, values), outputs)
                    self.alike.record(key, conditions, parts, [*values, *outputs])
            except OpenRegionError:
                logger.debug("no origin recorded for %s: its nodes are not a closed region", trace.location)

    def _write(self, trace: Trace, reads: _Reads, outputs: list[ir.Value | None]) -> tuple[str, Sequence[bytes]]:
        """Write an origin; return its conditions and the canonical bytes of its nodes."""
        roots: dict[ir.Node, int] = {}
        made: list[Output | None] = []
        for value in outputs:
            node = None if value is None else value.producer()
            if value is None or node is None:
                made.append(None)
            else:
                made.append(Output(roots.setdefault(node, len(roots)), value.index() or 0, self.type_of(value)))
        for number, root in enumerate(roots):
            if (PART_KEY if number else ORIGIN_KEY) in root.metadata_props:
                raise OpenRegionError
        definitions = [as_written(trace.op)]
        if None in reads.values:
            definitions = [*self._makers(trace, reads), *definitions]
        region = Region(self.graph, reads.cut, reads.passed, self.digests)
        region.walk(list(roots), self.own[reads.location] + _MOST_SHARED)
        operands = reads.checked(region)
        origin = Origin(definitions, operands, made, region.cuts, sorted(reads.passed), len(roots), len(region.nodes))
        conditions = origin.conditions
        text = origin_text(definitions, conditions)
        digest = digest_of(text, region.parts)
        for number, root in enumerate(roots):
            if number:
                root.metadata_props[PART_KEY] = part_of(digest, number)
            else:
                root.metadata_props[ORIGIN_KEY] = f"{digest} {text}"
        return conditions, region.parts

    def _makers(self, trace: Trace, reads: _Reads) -> Iterable[OperatorDef]:
        """Yield the operators that write operands that are not tensors.

        Raises OpenRegionError if others read these too, or if the init net makes them.
        """
        for blob, value in zip(reads.blobs, reads.values, strict=True):
            if value is not None or (self.bound if trace.before is None else trace.before).get(blob) is not None:
                continue
            makers = [op for op in self.net.op if blob in op.output and op != trace.op]
            if blob in self.made:
                raise OpenRegionError
            if not makers:
                continue
            if self.users is None:
                self.users = _users(self.net)
            if len(makers) > 1 or makers[0].input or len(makers[0].output) > 1 or self.users[blob] > 1:
                raise OpenRegionError
            yield makers[0]


class _Reads:
    """The operands of one operator, and how the import finds them."""

    def __init__(
        self, recorder: _Recorder, trace: Trace, blobs: Sequence[str], values: Sequence[ir.Value | None]
    ) -> None:
        self.recorder = recorder
        self.trace = trace
        self.blobs = blobs
        self.values = values
        self.location = trace.location
        self.operands: list[Operand] = []
        self.numbers: dict[ir.Value, int] = {}
        self.passed: frozenset[int] = frozenset()
        consulted = _by_name(trace.consulted) if trace.consulted else {}
        for number, (blob, value) in enumerate(zip(blobs, values, strict=True)):
            known = None if value is None else consulted.get(value.name)
            if known is not None:  # it follows from static dims: equivalent to a constant
                assert value is not None
                self.operands.append(self._held(ir.Tensor(known), value))
            elif value is None:
                self.operands.append(self._gone(blob))
            elif value in self.numbers:
                self.operands.append(Operand(same=self.numbers[value]))
            else:
                self.numbers[value] = number
                self.operands.append(Operand(recorder.type_of(value)))
        if trace.measured:
            measured = {value.name for value in trace.measured}
            self.passed = frozenset(number for value, number in self.numbers.items() if value.name in measured)

    def _gone(self, blob: str) -> Operand:
        """Return an operand that is not in the graph: it was removed, or is not a tensor."""
        value = (self.recorder.bound if self.trace.before is None else self.trace.before).get(blob)
        return Operand() if value is None else self._held(value.const_value, value)

    def _held(self, tensor: ir.TensorProtocol | None, value: ir.Value) -> Operand:
        if tensor is None or tensor.nbytes > _MAX_HELD_BYTES:
            raise OpenRegionError
        kind = self.recorder.type_of(value) if find_quantization(value) is not None else None
        return Operand(kind, held=ir.serde.serialize_tensor(tensor).SerializeToString(deterministic=True))

    def cut(self, _: int, value: ir.Value, reader: ir.Node) -> int | None:
        """Return an operand's index, None for another value. A value of which only dims are read becomes an operand."""
        number = self.numbers.get(value)
        if number is not None:
            return number
        if value.name in self.recorder.parameters:
            raise OpenRegionError
        if reader.op_type == "Shape" and not reader.domain and _location(value) != self.location:
            number = self.numbers[value] = len(self.operands)
            self.operands.append(Operand(self.recorder.type_of(value)))
        return number

    def checked(self, region: Region) -> list[Operand]:
        """Return the operands as the nodes of the region read them."""
        read = region.operands
        if not self.passed.issubset(read.values()):
            raise OpenRegionError
        for value, number in self.numbers.items():
            if value not in read:
                self.operands[number] = self._unread(value)
            elif value.const_value is not None:
                self.operands[number] = self._constant(value, self.operands[number], region)
        return self.operands

    def _unread(self, value: ir.Value) -> Operand:
        if value.const_value is not None:
            return self._held(value.const_value, value)
        if self.trace.op.type in _LOOK_BACK:
            raise OpenRegionError
        return Operand(self.recorder.type_of(value), name=str(value.name))

    def _constant(self, value: ir.Value, operand: Operand, region: Region) -> Operand:
        """Return the operand with the digest of its contents, if the conversion depends on these."""
        tensor = value.const_value
        assert tensor is not None
        tells = self._is_consulted(value) or any(node.op_type in SIZED_BY_NUMBERS for node in region.nodes)
        if tensor.dtype.is_floating_point() and not tells:
            return operand
        if tensor.nbytes > _MAX_CHECKED_BYTES:
            raise OpenRegionError
        return replace(operand, contents=contents(value, self.recorder.digests))

    def _is_consulted(self, value: ir.Value) -> bool:
        return any(value.name == other.name for other in self.trace.consulted or ())


def _by_name(
    consulted: Mapping[ir.Value, Array | None],
) -> dict[str | None, Array | None]:
    return {value.name: held for value, held in consulted.items()}


def _values(graph: ir.Graph) -> dict[str, ir.Value]:
    """Return the values that operators of the net can read: the graph's, and constants that were moved into bodies."""
    found = {str(value.name): value for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        for value in node.outputs:
            found[str(value.name)] = value
        for body in bodies(node) if node.attributes else ():
            found.update({str(value.name): value for value in _constants(body)})
    return found


def _constants(graph: ir.Graph) -> Iterable[ir.Value]:
    yield from graph.initializers.values()
    for node in graph:
        for body in bodies(node):
            yield from _constants(body)


def _users(net: NetDef) -> Counter[str]:
    """Return how many operators of the net read each blob, in bodies too."""
    users: Counter[str] = Counter()
    for op in net.op:
        users.update(count_reads(NetDef(op=[op])).keys())
    return users


def _is_typed(value: ir.Value | None) -> bool:
    return value is not None and value.type is not None and value.shape is not None


def _location(value: ir.Value) -> str | None:
    node = value.producer()
    return None if node is None else node.metadata_props.get(LOCATION_KEY)
