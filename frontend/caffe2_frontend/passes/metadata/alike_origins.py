"""Origins of operators that differ in names alone: made once, and written again with another definition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import CONTROL_TYPES
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa import forget_copies
from caffe2_frontend.emit.int8_values import find_quantization
from caffe2_frontend.interop.metadata.fingerprint import OpenRegionError
from caffe2_frontend.interop.metadata.origin import ORIGIN_KEY, ValueType, digest_of, origin_text
from caffe2_frontend.interop.operators import SIZED_BY_NUMBERS
from caffe2_frontend.lowering.trace import Trace

_MAY_BE_INT8: Final = frozenset({ir.DataType.UINT8, ir.DataType.INT32})
_MAY_BE_MARKED: Final = CONTROL_TYPES | {"Copy"}  # control operators by the copies in their bodies


class ValueTypes:
    """The types of values as the converters knew them. Equal ones are one object, except those of Int8 tensors.

    ``known`` are the values whose types are to be used instead of those of other values of the same name.
    """

    def __init__(self, known: Mapping[str, ir.Value]) -> None:
        self._known = known
        self._types: dict[tuple[int, int], ValueType] = {}  # by the ids of type and shape, which many values share
        self._alive: list[object] = []  # keeps types and shapes alive, so that their ids stay unique
        self._equal: dict[tuple[ir.DataType, tuple[int | str | None, ...] | None], ValueType] = {}

    def __call__(self, value: ir.Value) -> ValueType:
        """Return the type of a value. Raises OpenRegionError if it is not that of a tensor."""
        value = self.typed(value)
        kind, shape = value.type, value.shape
        key = (id(kind), id(shape))
        found = self._types.get(key)
        if found is not None:
            return found
        if not isinstance(kind, ir.TensorType):
            raise OpenRegionError
        dims = None if shape is None else tuple(dim if isinstance(dim, int) else dim.value for dim in shape)
        if kind.dtype in _MAY_BE_INT8:  # values of one type may be quantized in other ways
            return ValueType(kind.dtype, dims, find_quantization(value))
        self._alive += (kind, shape)
        found = self._types[key] = self._equal.setdefault((kind.dtype, dims), ValueType(kind.dtype, dims))
        return found

    def typed(self, value: ir.Value) -> ir.Value:
        """Return the value that has the type of a value as the converters knew it."""
        return self._known.get(value.name or "", value) if self._known else value


@dataclass(frozen=True, slots=True)
class _Alike:
    """What the origins of some operators have in common: the conditions, and the canonical bytes of the nodes."""

    conditions: str
    parts: Sequence[bytes]


class AlikeOrigins:
    """The origins of operators that became one node, which reads all operands of the operator and nothing else.

    Such an origin follows from the definition and from a key: the node's type and attributes, and the types of what it
    reads and computes. Attributes, types and shapes are compared by id: the graph holds them.
    """

    def __init__(self, type_of: ValueTypes) -> None:
        self._type_of = type_of
        self._known: dict[Hashable, _Alike] = {}
        self._kinds: dict[ir.Value, Hashable] = {}

    def key(
        self, trace: Trace, values: Sequence[ir.Value | None], outputs: Sequence[ir.Value | None]
    ) -> Hashable | None:
        """Return the key of an operator with these operands and outputs, of which one is in the graph at least.

        None where the origin depends on other nodes, or on names.
        """
        made = [value for value in outputs if value is not None]
        node = made[0].producer()
        assert node is not None
        op_type = node.op_type
        if trace.before is not None or trace.consulted or trace.measured or op_type in SIZED_BY_NUMBERS:
            return None
        numbers = {value: number for number, value in enumerate(values) if value is not None}
        if len(numbers) < len(values):
            return None
        read = tuple([-1 if value is None else numbers.get(value) for value in node.inputs])
        if None in read or not set(read).issuperset(numbers.values()):
            return None
        if ORIGIN_KEY in node.metadata_props or (len(made) > 1 and any(value.producer() is not node for value in made)):
            return None
        known = self._kinds
        kinds = tuple([known.get(value) or self._kind(value) for value in (*numbers, *made)])
        places = tuple([None if value is None else value.index() for value in outputs])
        attributes = tuple(map(id, node.attributes.values())) if node.attributes else ()
        return node.domain, op_type, node.overload, len(node.outputs), attributes, read, places, kinds

    def _kind(self, value: ir.Value) -> Hashable:
        """Return what is compared of a value, which one operator writes and others read."""
        typed = self._type_of.typed(value)
        kind = self._kinds[value] = (id(typed.type), id(typed.shape), value.const_value is None)
        return kind

    def write(self, key: Hashable, definition: OperatorDef, outputs: Sequence[ir.Value | None]) -> bool:
        """Write the origin of an operator into its node; return whether one of this key was recorded."""
        alike = self._known.get(key)
        if alike is None:
            return False
        node = next(filter(None, outputs)).producer()
        assert node is not None
        text = origin_text([definition], alike.conditions)
        node.metadata_props[ORIGIN_KEY] = f"{digest_of(text, alike.parts)} {text}"
        return True

    def record(
        self, key: Hashable | None, conditions: str, parts: Sequence[bytes], values: Iterable[ir.Value | None]
    ) -> None:
        """Record what an origin that was written has in common with others of its key; None records nothing.

        Nothing is recorded either where one of the operands and outputs, ``values``, is an integer constant, of which
        the origin has the contents, or may be quantized.
        """
        if key is not None and all(value is None or self._is_determined(value) for value in values):
            self._known[key] = _Alike(conditions, parts)

    def _is_determined(self, value: ir.Value) -> bool:
        """Whether the origin depends on the type of a value alone."""
        dtype = self._type_of(value).dtype
        return dtype not in _MAY_BE_INT8 and (value.const_value is None or dtype.is_floating_point())


def as_written(op: OperatorDef) -> OperatorDef:
    """Return the definition without the marks that the conversion to SSA puts on copies."""
    if op.type not in _MAY_BE_MARKED:
        return op
    net = NetDef(op=[op])
    forget_copies(net)
    return net.op[0]
