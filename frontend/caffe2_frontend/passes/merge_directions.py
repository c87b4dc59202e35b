"""Merge recurrent operators with reversed copies of their sequence into reverse or bidirectional operators."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Final

import onnx_ir as ir

from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.emit.shapes import END
from caffe2_frontend.interop.cleanup.unused import remove_unused
from caffe2_frontend.interop.domains import standard_type
from caffe2_frontend.interop.operators import RECURRENT
from caffe2_frontend.options import NO_LENGTHS
from caffe2_frontend.recurrent.fused import ALL_STEPS
from caffe2_frontend.state import Export

logger = logging.getLogger(__name__)

# X, W, R, B, lengths, initial h, initial c.
_LENGTHS: Final = 4
_STACKED_INPUTS: Final = (1, 2, 3, 5, 6)
_SAME_IN_BOTH: Final = ("hidden_size", "linear_before_reset")


@dataclass(frozen=True)
class _Backward:
    """An operator along a reversed sequence: the sequence, the result, and the result reversed again, if it is read."""

    x: ir.Value
    result: ir.Value | None = None
    reversed_result: ir.Value | None = None


class MergeDirections(InPlacePass[Export]):
    """Give an operator between two reversals the direction ``reverse``, and join it with a forward one if possible.

    Rows shorter than the sequence are reversed within their length by both: ONNX's operator as its definition says,
    Caffe2's ReversePackedSegs (ONNX's ReverseSequence) before and after the operator. Without lengths, all rows are
    reversed by a Slice.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"graph", "deduplicated", "pruned"})
    ensures: ClassVar[frozenset[str]] = frozenset({"directions"})

    def __call__(self, state: Export) -> None:
        """Rewrite the model's graph, unless reversals are to stay: not all runtimes have the other directions."""
        if state.options.recurrent in NO_LENGTHS:
            return
        graph = state.graph
        forward: dict[tuple[object, ...], ir.Node] = {}
        backward: dict[tuple[object, ...], ir.Node] = {}
        for node in list(graph):
            if standard_type(node) not in RECURRENT:
                continue
            found = _backward(node)
            if found is None:
                logger.debug("%s %r left unchanged: it is not between two reversals", node.op_type, node.name)
            else:
                node.replace_input_with(0, found.x)
                node.attributes["direction"] = ir.AttrString("direction", "reverse")
                if found.result is not None and found.reversed_result is not None:
                    _replace(found.reversed_result, found.result)
            (backward if found else forward)[_key(node)] = node
        for key in forward.keys() & backward.keys():
            _join(graph, forward[key], backward[key])
        if backward and state.model is not None:
            remove_unused(state.model)  # the reversals


def _backward(node: ir.Node) -> _Backward | None:
    turned = node.inputs[0].producer() if node.inputs[0] is not None else None
    lengths = _lengths(node)
    if turned is None or turned.inputs[0] is None or not _is_reversal(turned, lengths):
        return None
    y = node.outputs[0]
    if not y.uses() and not y.is_graph_output():
        return _Backward(turned.inputs[0])
    result = _only_reader(y, "Squeeze")
    if result is None:
        return None
    padded = _only_reader(result, "Where")
    result = padded if padded is not None else result
    again = _only_reader(result, turned.op_type)
    back = None if again is None else again.producer()
    if back is None or not _is_reversal(back, lengths):
        return None
    return _Backward(turned.inputs[0], result, again)


def _lengths(node: ir.Node) -> ir.Value | None:
    """Return the lengths of the rows; None if all are as long as the sequence."""
    lengths = node.inputs[_LENGTHS] if len(node.inputs) > _LENGTHS else None
    return None if lengths is None or ALL_STEPS in lengths.meta else lengths


def _is_reversal(node: ir.Node, lengths: ir.Value | None) -> bool:
    if lengths is None:
        operands = [None if value is None else value.const_value for value in node.inputs[1:]]
        numbers = [None if tensor is None or tensor.size != 1 else int(tensor.numpy().item()) for tensor in operands]
        return standard_type(node) == "Slice" and numbers == [-1, -END, 0, -1]
    axes = (node.attributes.get_int("batch_axis", 1), node.attributes.get_int("time_axis", 0))
    return standard_type(node) == "ReverseSequence" and axes == (1, 0) and _source(node.inputs[1]) is _source(lengths)


def _source(value: ir.Value | None) -> ir.Value | None:
    """Return the lengths before they were cast and clipped to the length of the sequence."""
    while value is not None:
        node = value.producer()
        if node is None or standard_type(node) not in ("Cast", "Min", "Max"):
            return value
        value = node.inputs[0]
    return None


def _only_reader(value: ir.Value, op_type: str) -> ir.Value | None:
    """Return the output of the only node that reads a value, if the node has that type."""
    uses = value.uses()
    if len(uses) != 1 or value.is_graph_output():
        return None
    (use,) = uses
    return use.node.outputs[0] if standard_type(use.node) == op_type else None


def _key(node: ir.Node) -> tuple[object, ...]:
    """Return a key that two operators share if they can be merged into the two directions of one operator."""
    attributes = tuple(node.attributes[name].value if name in node.attributes else None for name in _SAME_IN_BOTH)
    given = tuple(i < len(node.inputs) and node.inputs[i] is not None for i in _STACKED_INPUTS)
    return node.op_type, node.inputs[0], _lengths(node), given, attributes


def _join(graph: ir.Graph, first: ir.Node, second: ir.Node) -> None:
    """Replace two operators by one bidirectional operator."""
    inputs = list(first.inputs)
    new: list[ir.Node] = []
    for i in _STACKED_INPUTS:
        if i < len(inputs) and inputs[i] is not None:
            new.append(ir.node("Concat", [inputs[i], second.inputs[i]], {"axis": 0}))
            inputs[i] = new[-1].outputs[0]
    attributes = {name: attr for name, attr in first.attributes.items() if name != "activations"}
    if "activations" in first.attributes:
        both = [*first.attributes["activations"].as_strings(), *second.attributes["activations"].as_strings()]
        attributes["activations"] = ir.AttrStrings("activations", both)
    attributes["direction"] = ir.AttrString("direction", "bidirectional")
    outputs = max(len(first.outputs), len(second.outputs))
    joined = ir.Node("", first.op_type, inputs, attributes.values(), num_outputs=outputs)
    joined.metadata_props.update(first.metadata_props)
    new.append(joined)
    unread = []
    for i, value in enumerate(joined.outputs):
        olds = [node.outputs[i] if i < len(node.outputs) else None for node in (first, second)]
        if not any(old is not None and (old.uses() or old.is_graph_output()) for old in olds):
            unread.append(value)
            continue
        cut = ir.node("Split", [value], {"axis": 1 if i == 0 else 0, "num_outputs": 2}, num_outputs=2)
        cut.metadata_props.update(first.metadata_props)
        new.append(cut)
        for part, old in zip(cut.outputs, olds, strict=True):
            if old is not None and old.name:
                part.name, part.type, part.shape = old.name, old.type, old.shape
                _replace(old, part)
    base = next(value.name for value in first.outputs if value.name)
    for node in new:
        for k, value in enumerate(node.outputs):
            value.name = "" if value in unread else value.name or f"{base}/{node.op_type}_{new.index(node)}_{k}"
    _complete_types(new)
    graph.insert_before(first, new)
    graph.remove([first, second], safe=True)
    graph.sort()


def _replace(old: ir.Value, new: ir.Value) -> None:
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)


def _complete_types(nodes: list[ir.Node]) -> None:
    """Set the types and shapes of the concatenated weights, which folding needs."""
    for node in nodes:
        parts = [value for value in node.inputs if value is not None]
        if standard_type(node) == "Concat" and all(value.shape is not None for value in parts):
            first = parts[0]
            assert first.shape is not None
            node.outputs[0].type = first.type
            node.outputs[0].shape = ir.Shape([len(parts), *list(first.shape)[1:]])
