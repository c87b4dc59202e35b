"""Where ONNX nodes came from, as their metadata says it: the format, which both ways read and write here.

Every node of an export has

* ``caffe2.op``: the type of the Caffe2 operator that it was emitted for;
* ``caffe2.location``: the operator's place in the net.

One node of an operator, the first that makes an output of it, has besides

* ``caffe2.origin``: ``<digest> <JSON>``, the operator's definition with what the nodes must be for it to stand for
  them: the fields of :class:`Origin` under the names ``ops``, ``in``, ``out``, ``cuts``, ``passed``, ``roots`` and
  ``size``, without those that are as usual. Definitions and tensors are serialized protobufs in base64.

Where other nodes make further outputs, the n-th of them has

* ``caffe2.part``: ``<digest> <n>``.

The digest is taken over the definition and over all nodes that compute its outputs from its operands: their types,
domains, attributes, bodies and wiring, and the constants among them. Names of values play no part. It tells edits
apart from what the export wrote; it is no signature.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import onnx_ir as ir
from google.protobuf.message import DecodeError

from caffe2_bridge.control import is_control
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.netdef.names import require_text_in_net
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of, union
from caffe2_bridge.ssa.in_place import is_special
from caffe2_frontend.interop.types import Quantization

OP_KEY: Final = "caffe2.op"
LOCATION_KEY: Final = "caffe2.location"
ORIGIN_KEY: Final = "caffe2.origin"
PART_KEY: Final = "caffe2.part"
QUANTIZATION_KEY: Final = "caffe2.quantization"

_VERSION: Final = 1
_DIGEST_BYTES: Final = 16

Json: TypeAlias = Any


class OriginError(ValueError):
    """Metadata is no origin, or one that cannot be read."""


@dataclass(frozen=True)
class ValueType:
    """What the conversion knew of a value: its element type, its dims, and how to read the bytes of an Int8 tensor.

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
        """Raises OriginError, or another ValueError, where the list is another."""
        kind, dims, *how = _list(data)
        if dims is not None and not all(dim is None or isinstance(dim, int | str) for dim in _list(dims)):
            raise OriginError(f"{dims!r} are no dims")
        quantization = Quantization(float(how[0]), int(how[1])) if how else None
        return cls(ir.DataType(kind), None if dims is None else tuple(dims), quantization)


@dataclass(slots=True)
class Operand:
    """How an operand of the operator is found again. One that has nothing of all this is no tensor, or not there.

    ``type`` alone: the nodes read it; ``contents`` is the digest of a constant that was looked into. With ``name``, no
    node reads it. ``same``: it is the value of an earlier operand. ``held``: a constant that the nodes have in
    themselves, as a serialized TensorProto.

    As JSON: the type where there is nothing else, or a mapping of what there is.
    """

    type: ValueType | None = None
    contents: str = ""
    name: str = ""
    same: int | None = None
    held: bytes = b""

    @property
    def is_read(self) -> bool:
        """Whether nodes read it."""
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
        """Raises OriginError, or another ValueError, where the data are others."""
        if isinstance(data, list):
            return cls(ValueType.from_json(data))
        if not isinstance(data, dict):
            raise OriginError(f"{data!r} is no operand")
        return cls(
            ValueType.from_json(data["type"]) if "type" in data else None,
            str(data.get("contents", "")),
            str(data.get("name", "")),
            int(data["same"]) if "same" in data else None,
            b64decode(data["held"], validate=True) if "held" in data else b"",
        )


@dataclass(slots=True)
class Output:
    """Which node makes an output (by number among the roots), as which of the node's outputs.

    As JSON: ``[type]`` of the first output of the first root, else ``[type, root, index]``.
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
        """Raises OriginError, or another ValueError, where the data are others."""
        kind, *place = _list(data)
        root, index = (int(number) for number in place or (0, 0))
        if root < 0 or index < 0:
            raise OriginError("an output has a negative number")
        return cls(root, index, ValueType.from_json(kind))


@dataclass(slots=True)
class Origin:
    """An operator, and what its nodes were.

    Attributes:
        definitions: the operator last; before it, those that make what it reads and is no tensor.
        operands: of each blob that the operator reads (:func:`blobs_of`), then values that are only measured.
        outputs: of each blob that the operator writes; None where no node makes it.
        cuts: where the walk over the nodes (:class:`.fingerprint.Region`) first meets an operand: the
            number of the edge, and of the operand. Usual: one edge after the other.
        passed: operands whose own nodes are walked too, because the conversion looked at them. Usual: none.
        roots, size: how many nodes make outputs; how many nodes there are. Usual: one.
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
        ops = '","'.join(b2a_base64(op.SerializeToString(), newline=False).decode() for op in self.definitions)
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
        return f'{{"ops":["{ops}"],"in":[{operands}],"out":[{outputs}]{more}}}'


def node_metadata(op_type: str, location: object) -> dict[str, str]:
    """What every node has."""
    return {OP_KEY: op_type, LOCATION_KEY: str(location)}


def part_of(digest: str, number: int) -> str:
    """What marks the node of further outputs."""
    return f"{digest} {number}"


def digest_of(text: str, nodes: Iterable[bytes]) -> str:
    """The digest of an origin's text and of its nodes, as a Region writes them."""
    return blake2b(b"\n".join([b"%d" % _VERSION, text.encode(), *nodes]), digest_size=_DIGEST_BYTES).hexdigest()


def read_origin(metadata: str) -> tuple[str, str, Origin]:
    """The digest and the text in a node's metadata, and the origin that they say. Raises OriginError where it is none.

    The text is bounded by what the model holds; nothing in it is executed.
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
        raise OriginError(f"no origin: {error}") from None
    except BridgeError as error:
        raise OriginError(str(error)) from None
    return digest, text, origin


def _usual_cuts(operands: Sequence[Operand]) -> list[tuple[int, int]]:
    """The first edges lead to the operands, one after the other."""
    read = [number for number, operand in enumerate(operands) if operand.is_read]
    return list(enumerate(read, 1))


def _require_sound(origin: Origin) -> None:
    if not origin.definitions or any(op.domain or not op.type for op in origin.definitions):
        raise OriginError("no Caffe2 operator")
    require_text_in_net(NetDef(op=origin.definitions))
    reads, writes = blobs_of(origin.operator)
    if len(origin.operands) < len(reads) or len(origin.outputs) != len(writes):
        raise OriginError("the definition has other operands")
    same = (operand.same for operand in origin.operands)
    if any(other is not None and not 0 <= other < index for index, other in enumerate(same)):
        raise OriginError("an operand is said to be one that is not there")
    outputs = [out for out in origin.outputs if out is not None]
    if not outputs or {out.root for out in outputs} != set(range(origin.roots)):
        raise OriginError("the outputs are of other nodes")


def is_plain(op: OperatorDef) -> bool:
    """Whether an operator reads its inputs and writes its outputs, and that is all."""
    return not is_control(op) and not is_special(op.type)


def blobs_of(op: OperatorDef) -> tuple[list[str], list[str]]:
    """The blobs of its workspace that an operator reads, and those that it writes, declared or not.

    Raises ConversionError where a body cannot be read.
    """
    if is_plain(op):
        return [*union(op.input)], [*union(op.output)]
    found = effects_of(NetDef(op=[op]), op.type).ops[0]
    return [*union(op.input, found.used)], [*union(op.output, found.changed)]


def _list(data: Json) -> list[Json]:
    if not isinstance(data, list):
        raise OriginError(f"{data!r} is no list")
    return data


_to_text = json.JSONEncoder(separators=(",", ":")).encode
