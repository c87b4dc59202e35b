"""The metadata format that records which Caffe2 operator each ONNX node was converted from.

Every node of an export has

* ``caffe2.op``: the type of the Caffe2 operator that it was emitted for;
* ``caffe2.location``: the location of the operator in the net.

One node of each operator, the first that computes an output of it, also has

* ``caffe2.origin``: ``<digest> <JSON>``, the definition of the operator and the conditions under which it can replace
  the nodes: the fields of :class:`Origin` under the names ``ops``, ``in``, ``out``, ``cuts``, ``passed``, ``roots`` and
  ``size``, without those that have their default. Definitions and tensors are serialized protobufs in base64.

The n-th of the other nodes that compute outputs has

* ``caffe2.part``: ``<digest> <n>``.

The digest covers the definition and all nodes that compute its outputs from its operands (:mod:`.fingerprint`): their
types, domains, attributes, bodies and edges, and the constants among them, but no names of values. It detects edits of
the exported nodes, in which case the import converts them one by one. It is not a signature: whoever edits a model can
compute the digest as well, so the import must treat the definition as untrusted input.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.cached import cached_property
from caffe2_bridge.control import is_control
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.names import require_text_in_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of, union
from caffe2_bridge.ssa.in_place import SPECIAL_TYPES
from caffe2_frontend.interop.types import Quantization

NET_KEY: Final = "caffe2.net"  # of the model: the name of the net
OP_KEY: Final = "caffe2.op"
LOCATION_KEY: Final = "caffe2.location"
ORIGIN_KEY: Final = "caffe2.origin"
PART_KEY: Final = "caffe2.part"
QUANTIZATION_KEY: Final = "caffe2.quantization"

_VERSION: Final = 1
_DIGEST_BYTES: Final = 16

Json: TypeAlias = Any


def location_of(node: onnx.NodeProto) -> str:
    """Return the location of the Caffe2 operator that a node was exported from; of another node its type and name."""
    recorded = next((prop.value for prop in node.metadata_props if prop.key == LOCATION_KEY), "")
    return recorded or (f"{node.op_type} ({node.name})" if node.name else node.op_type)


class OriginError(ValueError):
    """Metadata is not an origin, or is damaged."""


@dataclass(frozen=True)
class ValueType:
    """The type of a value during the conversion: element type, dims, and quantization of an Int8 tensor.

    As JSON: ``[type, dims]`` or ``[type, dims, scale, zero point]``; dims are null where the rank is unknown.
    """

    dtype: ir.DataType
    dims: tuple[int | str | None, ...] | None
    quantization: Quantization | None = None

    @cached_property
    def text(self) -> str:
        """As JSON."""
        known: list[Json] = [int(self.dtype), self.dims]
        if self.quantization is not None:
            known += [self.quantization.scale, self.quantization.zero_point]
        return _to_text(known)

    @classmethod
    def from_json(cls, data: Json) -> ValueType:
        """Read a type from JSON. Raises OriginError, or another ValueError, if the list has another form."""
        kind, dims, *how = _list(data)
        if dims is not None and not all(dim is None or isinstance(dim, int | str) for dim in _list(dims)):
            raise OriginError(f"{dims!r} are not dims")
        quantization = Quantization(float(how[0]), int(how[1])) if how else None
        return cls(ir.DataType(kind), None if dims is None else tuple(dims), quantization)


@dataclass(slots=True)
class Operand:
    """How the import finds an operand of the operator. Without any field: not a tensor, or omitted.

    Attributes:
        type: the type of the value.
        contents: the digest of a constant whose contents the conversion depends on.
        name: the name of a value that no node reads.
        same: the index of an earlier operand with the same value.
        held: a constant that the nodes contain, as a serialized TensorProto.

    As JSON: the type if there is nothing else, otherwise a mapping of the fields that are set.
    """

    type: ValueType | None = None
    contents: str = ""
    name: str = ""
    same: int | None = None
    held: bytes = b""

    @property
    def is_read(self) -> bool:
        """Whether the nodes read the operand."""
        return self.type is not None and not self.name and not self.held

    @property
    def text(self) -> str:
        """As JSON."""
        if self.type is not None and not (self.contents or self.name or self.held):
            return self.type.text
        known: dict[str, Json] = {}
        if self.contents:
            known["contents"] = self.contents
        if self.name:
            known["name"] = self.name
        if self.same is not None:
            known["same"] = self.same
        if self.held:
            known["held"] = b64encode(self.held).decode()
        if self.type is not None:
            known["type"] = json.loads(self.type.text)
        return _to_text(known)

    @classmethod
    def from_json(cls, data: Json) -> Operand:
        """Read an operand from JSON. Raises OriginError, or another ValueError, if the data have another form."""
        if isinstance(data, list):
            return cls(ValueType.from_json(data))
        if not isinstance(data, dict):
            raise OriginError(f"{data!r} is not an operand")
        return cls(
            ValueType.from_json(data["type"]) if "type" in data else None,
            str(data.get("contents", "")),
            str(data.get("name", "")),
            int(data["same"]) if "same" in data else None,
            b64decode(data["held"], validate=True) if "held" in data else b"",
        )


@dataclass(slots=True)
class Output:
    """The node that computes an output (as index among the roots), and the index among the outputs of the node.

    As JSON: ``[type]`` for the first output of the first root, otherwise ``[type, root, index]``.
    """

    root: int
    index: int
    type: ValueType

    @property
    def text(self) -> str:
        """As JSON."""
        return f"[{self.type.text},{self.root},{self.index}]" if self.root or self.index else f"[{self.type.text}]"

    @classmethod
    def from_json(cls, data: Json) -> Output:
        """Read an output from JSON. Raises OriginError, or another ValueError, if the data have another form."""
        kind, *place = _list(data)
        root, index = (int(number) for number in place or (0, 0))
        if root < 0 or index < 0:
            raise OriginError("an output has a negative number")
        return cls(root, index, ValueType.from_json(kind))


@dataclass(slots=True)
class Origin:
    """An operator and the nodes that it was converted to.

    Attributes:
        definitions: the operator last; before it, the operators that create its operands that are not tensors.
        operands: one for each blob that the operator reads (:func:`blobs_of`), then values of which only the shape is
            read.
        outputs: one for each blob that the operator writes; None if no node computes it.
        cuts: where the traversal of the nodes (:class:`.fingerprint.Region`) first meets an operand: the number of the
            edge and the index of the operand. Default: the operands in order at the first edges.
        passed: operands whose own nodes are traversed too, because the conversion inspected them. Default: none.
        roots, size: the number of nodes that compute outputs, and of all nodes. Default: one.
    """

    definitions: Sequence[OperatorDef]
    operands: Sequence[Operand]
    outputs: Sequence[Output | None]
    cuts: Sequence[tuple[int, int]]
    passed: Sequence[int] = ()
    roots: int = 1
    size: int = 1

    @property
    def operator(self) -> OperatorDef:
        """The operator itself."""
        return self.definitions[-1]

    @property
    def text(self) -> str:
        """As JSON."""
        return origin_text(self.definitions, self.conditions)

    @property
    def conditions(self) -> str:
        """All fields but the definitions, as the end of the JSON."""
        operands = ",".join(operand.text for operand in self.operands)
        outputs = ",".join("null" if out is None else out.text for out in self.outputs)
        more = ""
        if self.cuts != _usual_cuts(self.operands):
            more += f',"cuts":{_to_text(self.cuts)}'
        if self.passed:
            more += f',"passed":{_to_text(self.passed)}'
        if self.roots != 1:
            more += f',"roots":{self.roots}'
        if self.size != 1:
            more += f',"size":{self.size}'
        return f'"in":[{operands}],"out":[{outputs}]{more}}}'


def origin_text(definitions: Iterable[OperatorDef], conditions: str) -> str:
    """Return the JSON of an origin with these definitions and conditions."""
    ops = '","'.join([b2a_base64(op.SerializeToString(), newline=False).decode() for op in definitions])
    return f'{{"ops":["{ops}"],{conditions}'


def node_metadata(op_type: str, location: object) -> dict[str, str]:
    """Return the metadata of every node."""
    return {OP_KEY: op_type, LOCATION_KEY: str(location)}


def part_of(digest: str, number: int) -> str:
    """Return the metadata of the n-th further node that computes outputs."""
    return f"{digest} {number}"


def digest_of(text: str, nodes: Iterable[bytes]) -> str:
    """Return the digest of the text of an origin and of the canonical bytes of its nodes."""
    return blake2b(b"\n".join([b"%d" % _VERSION, text.encode(), *nodes]), digest_size=_DIGEST_BYTES).hexdigest()


def read_origin(metadata: str) -> tuple[str, str, Origin]:
    """Parse the metadata of a node into digest, text and origin. Raises OriginError where it is damaged.

    The result is no larger than the metadata, and nothing in it is executed.
    """
    digest, _, text = metadata.partition(" ")
    try:
        data = json.loads(text)
        operands = [Operand.from_json(operand) for operand in _list(data["in"])]
        origin = Origin(
            [OperatorDef.FromString(b64decode(op, validate=True)) for op in _list(data["ops"])],
            operands,
            [None if out is None else Output.from_json(out) for out in _list(data["out"])],
            [(int(edge), int(operand)) for edge, operand in _list(data.get("cuts", _usual_cuts(operands)))],
            [int(operand) for operand in _list(data.get("passed", []))],
            int(data.get("roots", 1)),
            int(data.get("size", 1)),
        )
        _require_sound(origin)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, DecodeError) as error:
        raise OriginError(f"the metadata is not an origin: {error}") from None
    except BridgeError as error:
        raise OriginError(str(error)) from None
    return digest, text, origin


def _usual_cuts(operands: Sequence[Operand]) -> list[tuple[int, int]]:
    """Return the default of ``cuts``: the first edges lead to the operands that are read, in order."""
    read = [number for number, operand in enumerate(operands) if operand.is_read]
    return list(enumerate(read, 1))


def _require_sound(origin: Origin) -> None:
    if not origin.definitions or any(op.domain or not op.type for op in origin.definitions):
        raise OriginError("the definition is not a Caffe2 operator")
    require_text_in_net(NetDef(op=origin.definitions))
    reads, writes = blobs_of(origin.operator)
    if len(origin.operands) < len(reads) or len(origin.outputs) != len(writes):
        raise OriginError("the operands or outputs are not those of the definition")
    same = (operand.same for operand in origin.operands)
    if any(other is not None and not 0 <= other < index for index, other in enumerate(same)):
        raise OriginError("an operand refers to one that does not precede it")
    outputs = [out for out in origin.outputs if out is not None]
    if not outputs or {out.root for out in outputs} != set(range(origin.roots)):
        raise OriginError("the outputs do not belong to the recorded nodes")


def is_plain(op: OperatorDef) -> bool:
    """Whether an operator only reads its inputs and only writes its outputs."""
    return not is_control(op) and op.type not in SPECIAL_TYPES


def listed_blobs(op: OperatorDef) -> tuple[Sequence[str], Sequence[str]]:
    """Return the blobs that an operator lists as inputs and as outputs, each once."""
    return _distinct(op.input[:]), _distinct(op.output[:])


def _distinct(names: Sequence[str]) -> Sequence[str]:
    """Return each name once, without empty ones."""
    if len(set(names)) == len(names) and "" not in names:
        return names
    return list(filter(None, dict.fromkeys(names)))


def blobs_of(op: OperatorDef) -> tuple[Sequence[str], Sequence[str]]:
    """Return the blobs of its workspace that an operator reads, and those that it writes, declared or not.

    Raises ConversionError where a body cannot be read.
    """
    if is_plain(op):
        return listed_blobs(op)
    found = effects_of(NetDef(op=[op]), op.type).ops[0]
    return [*union(op.input, found.used)], [*union(op.output, found.changed)]


def _list(data: Json) -> list[Json]:
    if not isinstance(data, list):
        raise OriginError(f"{data!r} is not a list")
    return data


_to_text = json.JSONEncoder(separators=(",", ":")).encode
