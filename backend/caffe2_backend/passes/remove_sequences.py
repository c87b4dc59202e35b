"""Replace sequences of tensors, which Caffe2 does not have, by tensors."""

from __future__ import annotations

import logging
from typing import ClassVar

import onnx_ir as ir

from caffe2_backend.passes.flatten import infer
from caffe2_backend.passes.infer_loop_shapes import infer_loop_shapes
from caffe2_backend.passes.sequence_tensors import Contents, Emitter, Items, Rows, become
from caffe2_backend.state import Import
from caffe2_bridge.diagnostics import ConversionError, Diagnostic, Location
from caffe2_bridge.passes import InPlacePass
from caffe2_frontend.interop.bodies import all_graphs, all_nodes, value_names
from caffe2_frontend.interop.domains import is_standard
from caffe2_frontend.interop.names import Names
from caffe2_frontend.interop.operators import SEQUENCE_MAKERS, SEQUENCE_READERS

logger = logging.getLogger(__name__)


class RemoveSequences(InPlacePass[Import]):
    """Replace sequences by the values that they hold, or by a tensor that has an axis for them.

    A sequence to which each iteration of a loop adds becomes a scan output of the loop; one that an iteration also
    reads, and that is not empty at first, a tensor that grows. The lowering reports what remains a sequence as an
    operator that Caffe2 lacks. Where operators may be carried, sequences stay.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"constants", "shapes"})
    ensures: ClassVar[frozenset[str]] = frozenset({"tensors"})

    def __call__(self, state: Import) -> None:
        """Replace the sequences of the model."""
        model = state.model
        if not any(node.op_type in SEQUENCE_MAKERS for node in all_nodes(model.graph)):
            return
        if state.options.carries_nodes:
            logger.debug("sequences kept: operators may be carried")
            return
        names = Names(value_names(model.graph))
        for loops in (False, True):  # values in loops get their rank from reads of sequences before them
            _Remover(model.graph, names, loops=loops).run()
            _forget_shapes(model)
            infer(model)
        if _rank_loops(model):
            infer(model)
        infer_loop_shapes(model)


def _forget_shapes(model: ir.Model) -> None:
    """Remove all shapes, to infer them again: they follow the letter of SplitToSequence, see below."""
    for graph in all_graphs(model.graph):
        for value in (value for node in graph for value in node.outputs):
            value.shape = None


def _rank_loops(model: ir.Model) -> bool:
    """Set the ranks of the outputs of loops from those of the body's outputs, which ONNX's inference does not do."""
    found = False
    for node in all_nodes(model.graph):
        if node.op_type == "Loop" and not node.domain:
            results = node.attributes["body"].as_graph().outputs[1 : len(node.inputs) - 1]
            for output, result in zip(node.outputs, results, strict=False):
                if output.shape is None and result.shape is not None:
                    become(output, result)
                    found = True
    return found


class _Remover:
    """One walk over all graphs, in the order of the nodes.

    ``_known`` maps each sequence to its replacement. Nodes that make sequences are collected, and removed at the end if
    nothing reads them. Without ``loops`` the states of loops and the outputs of branches stay sequences.
    """

    def __init__(self, main: ir.Graph, names: Names, *, loops: bool) -> None:
        self._main = main
        self._loops = loops
        self._emitter = Emitter(main, names, main)
        self._known: dict[ir.Value, Contents] = {}
        self._done: list[ir.Node] = []

    def run(self) -> None:
        """Replace the sequences of all graphs."""
        self._graph(self._main)
        self._drop_unread()
        self._require_all_dropped()
        kept = sum(node.op_type in SEQUENCE_MAKERS for node in all_nodes(self._main))
        if kept:
            logger.debug("%d operators on sequences cannot be expressed by tensors", kept)

    def _require_all_dropped(self) -> None:
        """Raise if something still reads a sequence of a loop that was replaced by another."""
        for node in self._done:
            if any(value.name is None for value in node.outputs):
                reason = "a sequence that the loop makes leaves a branch of which the others have no such sequence"
                raise ConversionError(
                    [Diagnostic("unsupported", reason, Location("graph", None, "Loop", node.name or ""))]
                )

    def _graph(self, graph: ir.Graph) -> None:
        for node in tuple(graph):
            if not is_standard(node):
                continue
            if node.op_type in SEQUENCE_MAKERS or node.op_type == "Identity":
                made = self._made(node, self._emitter.at(node))
                if made is not None:
                    self._known[node.outputs[0]] = made
                    self._done.append(node)
            elif node.op_type in SEQUENCE_READERS:
                self._read(node, self._emitter.at(node))
            elif node.op_type == "Loop" and self._loops:
                self._loop(node)
            elif node.op_type == "If" and self._loops:
                self._branch(node)
            else:
                for attr in node.attributes.values():
                    if attr.type == ir.AttributeType.GRAPH:
                        self._graph(attr.as_graph())

    def _made(self, node: ir.Node, emitter: Emitter) -> Contents | None:
        operands = [*node.inputs, None, None, None]
        of = None if operands[0] is None else self._known.get(operands[0])
        made: Contents | None = None
        match node.op_type:
            case "SequenceEmpty":
                made = Items(())
            case "SequenceConstruct":
                made = Items(tuple(value for value in node.inputs if value is not None))
            case "SplitToSequence" if operands[0] is not None:
                # ONNX's specification ignores ``keepdims`` where sizes are given; onnxruntime and PyTorch follow it
                # where a size is 1.
                keep = bool(_integer(node, "keepdims", 1))
                made = emitter.split(operands[0], operands[1], _integer(node, "axis", 0), keep=keep)
            case "SequenceInsert" if of is not None and operands[1] is not None:
                made = emitter.inserted(of, operands[1], operands[2])
            case "SequenceErase" if of is not None:
                made = emitter.erased(of, operands[1])
            case "Identity":
                made = of
        return made

    def _read(self, node: ir.Node, emitter: Emitter) -> None:
        operands = [*node.inputs, None]
        of = None if operands[0] is None else self._known.get(operands[0])
        if of is None:
            return
        match node.op_type:
            case "SequenceAt":
                made = None if operands[1] is None else emitter.at_place(of, operands[1])
            case "SequenceLength":
                made = emitter.length(of)
            case _:
                new = bool(_integer(node, "new_axis", 0))
                made = emitter.concatenated(of, _integer(node, "axis", 0), new=new)
        if made is not None:
            _replace(node.outputs[0], emitter.emit("Identity", made))
            self._done.append(node)

    def _branch(self, node: ir.Node) -> None:
        """Replace a sequence that both branches of an If output by a tensor with the items along its first axis."""
        branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        for graph in branches:
            self._graph(graph)
        for position, output in enumerate(node.outputs):
            parts = [self._known.get(graph.outputs[position]) for graph in branches]
            tensors = [
                None if part is None else self._emitter.at(graph).first_rows(part)
                for graph, part in zip(branches, parts, strict=True)
            ]
            if any(tensor is None for tensor in tensors):
                continue
            for graph, tensor in zip(branches, tensors, strict=True):
                assert tensor is not None
                graph.outputs[position] = self._emitter.at(graph).emit("Identity", tensor)
            become(output, branches[0].outputs[position])
            self._known[output] = Rows(output, 0)

    def _loop(self, node: ir.Node) -> None:
        """Replace the states of a Loop that are sequences.

        There are three kinds. A state to which an iteration only appends items becomes a scan output, joined after the
        loop with the items before it. A state that does not change is removed: the body reads the outer sequence. Any
        other state becomes a tensor with the items along its first axis, if its first value is not empty, and if the
        body computes it as such a tensor; otherwise it stays.
        """
        body = node.attributes["body"].as_graph()
        before = self._emitter.at(node)
        held = len(node.inputs) - 2
        added: dict[int, list[ir.Value]] = {}  # state index: what each iteration adds to it
        fixed: set[int] = set()
        grown: dict[int, ir.Value] = {}  # state index: its initial value
        for number in range(held):
            start, formal = node.inputs[2 + number], body.inputs[2 + number]
            first = None if start is None else self._known.get(start)
            if first is None:
                continue
            items = _added_items(body, formal, body.outputs[1 + number])
            if items:
                added[number] = items
                self._done.extend(_chain(formal, body.outputs[1 + number]))
            elif items is not None:
                fixed.add(number)
                self._known[formal] = first
            else:
                tensor = before.first_rows(first)
                if tensor is not None:
                    grown[number] = tensor
                    become(formal, tensor)
                    self._known[formal] = Rows(formal, 0)
        self._graph(body)
        end = self._emitter.at(body)
        for number in tuple(grown):
            after = self._known.get(body.outputs[1 + number])
            tensor = None if after is None else end.first_rows(after)
            if tensor is None:
                del grown[number]
            else:
                body.outputs[1 + number] = end.emit("Identity", tensor)
        if added or fixed or grown:
            self._rebuild(node, body, added, fixed, grown)

    def _rebuild(
        self,
        node: ir.Node,
        body: ir.Graph,
        added: dict[int, list[ir.Value]],
        fixed: set[int],
        grown: dict[int, ir.Value],
    ) -> None:
        """Replace a Loop by one without states that are not tensors, with a scan output for each that only grows."""
        end = self._emitter.at(body)
        held = len(node.inputs) - 2
        kept = [number for number in range(held) if number not in added and number not in fixed]
        rows = [_stacked(end, items) for items in added.values()]
        starts = {number: self._known[value] for number in (*added, *fixed) if (value := node.inputs[2 + number])}
        results = [body.outputs[0], *(body.outputs[1 + number] for number in kept), *body.outputs[1 + held :], *rows]
        formals = [*body.inputs[:2], *(body.inputs[2 + number] for number in kept)]
        operands = [*node.inputs[:2], *(grown.get(number, node.inputs[2 + number]) for number in kept)]
        body.outputs.clear()
        body.outputs.extend(results)
        body.inputs.clear()
        body.inputs.extend(formals)
        new = ir.Node("", "Loop", operands, [ir.AttrGraph("body", body)], num_outputs=len(results) - 1, name=node.name)
        node.prepend(new)
        after = self._emitter.at(node)
        first = len(new.outputs) - len(rows)
        old = dict(enumerate(node.outputs))  # a node may leave out the last outputs of its body
        scanned = range(held, held + first - len(kept))
        for number, value in zip((*kept, *scanned), new.outputs[:first], strict=True):
            if number in old:
                _replace(old[number], value)
        known: dict[int, Contents] = {number: starts[number] for number in fixed}
        for number in grown:
            value = new.outputs[kept.index(number)]
            become(value, results[1 + kept.index(number)])
            self._known[value] = known[number] = Rows(value, 0)
        for number, value in zip(added, new.outputs[first:], strict=True):
            value.name = after.fresh("Loop")
            made = _flat(after, value, added[number])
            whole = None if made is None else after.joined([starts[number], made])
            if whole is not None:
                known[number] = whole
        self._known.update({old[number]: contents for number, contents in known.items() if number in old})
        self._done.append(node)

    def _drop_unread(self) -> None:
        """Remove nodes whose outputs are not used any more."""
        count = -1
        while count != len(self._done):
            count = len(self._done)
            for node in reversed(self._done):
                if node.graph is not None and not any(
                    value.uses() or value.is_graph_output() for value in node.outputs
                ):
                    node.graph.remove(node, safe=True)
            self._done = [node for node in self._done if node.graph is not None]


def _added_items(body: ir.Graph, formal: ir.Value, result: ir.Value) -> list[ir.Value] | None:
    """Return what an iteration appends to a sequence that it does not use otherwise; None if it does more with it."""
    items: list[ir.Value] = []
    value = result
    while value is not formal:
        node = value.producer()
        if node is None or node.graph is not body or node.op_type not in ("SequenceInsert", "Identity"):
            return None
        if len(value.uses()) + int(value.is_graph_output()) > 1 or (
            len(node.inputs) > 2 and node.inputs[2] is not None
        ):
            return None
        source = node.inputs[0]
        if source is None:
            return None
        if node.op_type == "SequenceInsert" and node.inputs[1] is not None:
            items.insert(0, node.inputs[1])
        value = source
    return items if not items or len(formal.uses()) == 1 else None


def _chain(formal: ir.Value, result: ir.Value) -> list[ir.Node]:
    """Return the nodes between a sequence at the start and at the end of an iteration."""
    nodes: list[ir.Node] = []
    while result is not formal:
        node = result.producer()
        assert node is not None
        assert node.inputs[0] is not None
        nodes.insert(0, node)
        result = node.inputs[0]
    return nodes


def _stacked(emitter: Emitter, items: list[ir.Value]) -> ir.Value:
    """Return the output of an iteration for the items that it appends: the only one, or all along a new first axis."""
    made = items[0] if len(items) == 1 else emitter.concatenated(Items(tuple(items)), 0, new=True)
    assert made is not None
    return emitter.emit("Identity", made)


def _flat(emitter: Emitter, value: ir.Value, items: list[ir.Value]) -> Contents | None:
    """Return the items of all iterations, from the scan output of a loop."""
    value.type, shape = items[0].type, items[0].shape
    if shape is not None:
        value.shape = ir.Shape([None] * (len(shape) + (1 if len(items) == 1 else 2)))
    if len(items) == 1:
        return Rows(value, 0)
    tensor = emitter.concatenated(Rows(value, 0), 0, new=False)
    return None if tensor is None else Rows(tensor, 0)


def _replace(old: ir.Value, new: ir.Value) -> None:
    """Move the name and the readers of a value to another."""
    new.name, old.name = old.name, None
    if new.type is None and isinstance(old.type, ir.TensorType):
        new.type, new.shape = old.type, old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)


def _integer(node: ir.Node, name: str, default: int) -> int:
    attr = node.attributes.get(name)
    return default if attr is None else attr.as_int()
