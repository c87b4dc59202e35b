"""Stamps: the nodes of a uniform operator, recorded when it is first converted and repeated for the operators like it.

An operator is uniform if what its converter emits follows from its type, its arguments, and what is known of its
operands: their element types and dims, which of them are one value, which are constants, and the type of the node that
makes each. Large nets repeat the same few of these. What a converter reads beyond that is not recorded as a stamp: the
contents of a constant, the operands of another node, a diagnostic.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import onnx_ir as ir

from caffe2_bridge.netdef.views import OpView
from caffe2_frontend.interop.cleanup.common_nodes import compared_attributes
from caffe2_frontend.interop.metadata.origin import node_metadata
from caffe2_frontend.lowering.scope import SHARED_CONSTANT_BYTES, Scope

Value: TypeAlias = ir.Value
# A value of a stamp: an operand or a result of one of its nodes by number (operands first), or one value each time.
Ref: TypeAlias = int | Value | None

_BODIES: Final = frozenset({ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS})
_MAY_BE_SIZES: Final = frozenset({ir.DataType.INT64, ir.DataType.INT32})


@dataclass(frozen=True, slots=True)
class _Result:
    """The type and the shape of an output of a node, which all repetitions share, and its kind."""

    type: ir.TypeProtocol | None
    shape: ir.Shape | None
    kind: int | None


@dataclass(frozen=True, slots=True)
class _Node:
    """One node of a stamp."""

    op_type: str
    attributes: tuple[ir.Attr, ...] = field(compare=False)
    contents: Hashable
    inputs: tuple[Ref, ...]
    results: tuple[_Result, ...]


@dataclass(frozen=True, slots=True)
class Stamp:
    """The nodes of an operator, and its outputs.

    ``is_one_node``: it has one node, whose outputs are those of the operator.
    """

    nodes: tuple[_Node, ...]
    outputs: tuple[Ref, ...]
    is_one_node: bool = False


_UNKNOWN: Final = Stamp((), ())


class StampError(Exception):
    """Two operators with one key have other nodes: a fault of this project."""


class Stamps:
    """The stamps of one lowering, by what they depend on."""

    def __init__(self) -> None:
        self._stamps: dict[Hashable, Stamp | None] = {}
        self._kinds: dict[Value, int | None] = {}
        self._numbers: dict[Hashable, int] = {}

    def find(self, view: OpView, scope: Scope) -> tuple[Hashable, list[Value], Stamp | None]:
        """Return what the nodes of an operator of a uniform type depend on, its operands, and the stamp of this key.

        The key is None where that is not known, and where operators of the key are converted one by one.
        """
        names, written, proto = view.inputs, view.outputs, view.proto
        operands = [value for value in map(scope.blobs.get, names) if value is not None]
        if len(operands) < len(names) or len(set(written)) < len(written) or proto.domain or not scope.outermost:
            return None, [], None
        known = self._kinds
        kinds = tuple([known.get(value) or self._kind(value) for value in operands])
        if None in kinds:
            return None, [], None
        # By value, not by name: two names are of one value after a copy.
        same = () if len(set(operands)) == len(operands) else tuple(map(operands.index, operands))
        arguments = tuple(arg.SerializeToString(deterministic=True) for arg in proto.arg) if proto.arg else ()
        key = (view.type, kinds, len(written), same, arguments)
        stamp = self._stamps.get(key, _UNKNOWN)
        return (None if stamp is None else key), operands, (None if stamp is _UNKNOWN else stamp)

    def record(self, key: Hashable, stamp: Stamp | None) -> None:
        """Record the stamp of a key; None where operators of this key are converted one by one.

        Raises StampError where an operator of the key was converted to other nodes before: its type is not uniform.
        """
        known = self._stamps.setdefault(key, stamp)
        if known is not None and known != stamp:
            raise StampError(f"operators of the key {key!r} are converted to {known} and to {stamp}")

    def describe(
        self, operands: Sequence[Value], nodes: Sequence[ir.Node], outputs: Sequence[Value | None]
    ) -> Stamp | None:
        """Return the stamp of some nodes; None if they read a value that other operators do not have."""
        made = [*operands, *(value for node in nodes for value in node.outputs)]
        numbers = {value: number for number, value in reversed([*enumerate(made)])}
        read = [value for node in nodes for value in node.inputs]
        if not all(value is None or value in numbers or _is_common(value) for value in (*read, *outputs)):
            return None
        if any(attribute.type in _BODIES for node in nodes for attribute in node.attributes.values()):
            return None

        def refs(values: Iterable[Value | None]) -> tuple[Ref, ...]:
            return tuple(None if value is None else numbers.get(value, value) for value in values)

        recorded = [
            _Node(
                node.op_type,
                tuple(node.attributes.values()),
                compared_attributes(node),
                refs(node.inputs),
                tuple(_Result(value.type, value.shape, self._kind(value)) for value in node.outputs),
            )
            for node in nodes
        ]
        is_one_node = len(nodes) == 1 and outputs == nodes[0].outputs
        return Stamp(tuple(recorded), refs(outputs), is_one_node)

    def _kind(self, value: Value) -> int | None:
        """Return the number of what is known of a value; None where converters may know more than stamps depend on.

        They follow computed sizes back to the nodes that make them, and read the quantization of Int8 tensors, which
        is in the data that onnx_ir keeps of a value.
        """
        if value in self._kinds:
            return self._kinds[value]
        kind, node = value.type, value.producer()
        number = None
        if isinstance(kind, ir.TensorType) and not value.meta and (node is None or kind.dtype not in _MAY_BE_SIZES):
            dims = None if value.shape is None else value.shape.dims
            maker = "" if node is None else node.op_type
            key = (int(kind.dtype), dims, value.const_value is not None, maker)
            number = self._numbers.setdefault(key, len(self._numbers) + 1)
        self._kinds[value] = number
        return number

    def repeat(
        self, stamp: Stamp, operands: Sequence[Value], scope: Scope, view: OpView, location: str
    ) -> Sequence[Value | None]:
        """Emit the nodes of a stamp into a scope for an operator, bind its outputs, and return them."""
        values = [*operands]
        written = view.outputs
        for node in stamp.nodes:
            results = [ir.Value(type=each.type, shape=each.shape) for each in node.results]
            for value, result in zip(results, node.results, strict=True):
                self._kinds[value] = result.kind
            values += results
            made = ir.Node(
                "",
                node.op_type,
                [values[ref] if isinstance(ref, int) else ref for ref in node.inputs],
                node.attributes,
                outputs=results,
                name="",  # NameNodes names it
                metadata_props=node_metadata(view.type, location),
            )
            if stamp.is_one_node and all(written):
                scope.append_written(made, written)
                return results
            scope.append(made, written[0])
        outputs = [ref if ref is None or isinstance(ref, Value) else values[ref] for ref in stamp.outputs]
        for name, output in zip(written, outputs, strict=False):
            if name:
                scope.bind(name, output)
        return outputs


def _is_common(value: Value) -> bool:
    """Whether a value that is not an operand is the same for all operators: a small constant, or an input."""
    tensor = value.const_value
    if tensor is not None:
        return tensor.dtype != ir.DataType.STRING and tensor.nbytes <= SHARED_CONSTANT_BYTES
    return value.producer() is None
