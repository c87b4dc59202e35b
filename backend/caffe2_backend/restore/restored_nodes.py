"""Restored operators on their way through the import: nodes of a domain of their own, that carry their definitions."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Final

import onnx_ir as ir

from caffe2_bridge.control import is_control
from caffe2_bridge.graph_edit.value_numbering import Slots, rename_slots
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_bridge.ssa.effects import effects_of
from caffe2_frontend.interop.metadata.origin import blobs_of

DOMAIN: Final = "caffe2.restored"
_DEFINITIONS: Final = "definitions"


def is_restored(node: ir.Node) -> bool:
    """Whether a node stands for a restored operator."""
    return node.domain == DOMAIN


def restored_node(
    definitions: Sequence[OperatorDef], inputs: Sequence[ir.Value | None], outputs: Sequence[ir.Value]
) -> ir.Node:
    """Return the node that stands for the last of ``definitions``; operands and outputs as in :func:`blobs_of`."""
    texts = [b64encode(op.SerializeToString()).decode() for op in definitions]
    attributes = [ir.AttrStrings(_DEFINITIONS, texts)]
    return ir.Node(DOMAIN, definitions[-1].type, inputs, attributes, outputs=outputs)


def restored_operators(node: ir.Node) -> list[OperatorDef]:
    """Return the operators that a restored node stands for, with the names of its values."""
    inputs = [None if value is None else str(value.name) for value in node.inputs]
    return renamed_operators(_definitions(node), inputs, [str(value.name) for value in node.outputs])


def reserved_names(graph: ir.Graph) -> Iterator[str]:
    """Yield names in definitions of restored operators that are not values of the graph, such as workspace stacks."""
    for node in graph:
        if is_restored(node):
            definitions = _definitions(node)
            yield from own_names(definitions, [value is not None for value in node.inputs])


def own_names(definitions: Sequence[OperatorDef], bound: Sequence[bool]) -> set[str]:
    """Return the names that a restored operator keeps, and that no other blob may have.

    These are the blobs that it reads and that are not values of the graph (``bound``), and all blobs of the operators
    that make them. Blobs that its bodies write into the workspace around them are outputs of it, also where they find
    such a blob again.
    """
    *makers, op = definitions
    reads, writes = blobs_of(op)
    kept = {name for name, is_bound in zip(reads, bound, strict=False) if not is_bound}.difference(writes)
    return kept.union(*((*maker.input, *maker.output) for maker in makers))


def renamed_operators(
    definitions: Sequence[OperatorDef], inputs: Sequence[str | None], outputs: Sequence[str]
) -> list[OperatorDef]:
    """Return the definitions with new names for the blobs that the last of them reads and writes (:func:`blobs_of`).

    None is an operand that is not a value of the graph: what ``definitions`` make before keeps its name. A blob that
    the operator reads and overwrites is first copied to the name of the output.

    Raises:
        ConversionError: a body cannot use one of the names.
    """
    *makers, definition = definitions
    reads, writes = blobs_of(definition)
    before = {blob: blob if name is None else name for blob, name in zip(reads, inputs, strict=False)}
    after = dict(zip(writes, outputs, strict=True))
    made = {blob for maker in makers for blob in maker.output}
    copies = []
    for blob, name in zip(reads, inputs, strict=False):
        if blob in after and name is not None and name != after[blob]:
            copy = OperatorDef(type="Copy", input=[name], output=[after[blob]])
            if definition.HasField("device_option"):
                copy.device_option.CopyFrom(definition.device_option)
            copies.append(copy)
            before[blob] = after[blob]
        elif blob in after and name is None:
            if blob in made:
                after[blob] = blob
            else:
                before[blob] = after[blob]
    op = OperatorDef()
    op.CopyFrom(definition)
    if is_control(op):
        op = _renamed(op, before, after)
    else:
        op.input[:] = [before.get(name, name) for name in op.input]
        op.output[:] = [after.get(name, name) for name in op.output]
    return [*makers, *copies, op]


def _renamed(op: OperatorDef, before: dict[str, str], after: dict[str, str]) -> OperatorDef:
    if all(old == new for names in (before, after) for old, new in names.items()):
        return op
    slots = Slots(effects_of(NetDef(op=[op], external_input=before, external_output=after), op.type))
    names = {slots.root(slots.entry[old]): new for old, new in before.items() if old in slots.entry}
    names.update({slots.root(slots.last[old]): new for old, new in after.items() if old in slots.last})
    return rename_slots(slots, names, op.type, frozenset()).op[0]


def _definitions(node: ir.Node) -> list[OperatorDef]:
    return [OperatorDef.FromString(b64decode(text)) for text in node.attributes[_DEFINITIONS].as_strings()]
