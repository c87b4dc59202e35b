"""Moving computations out of the body of a loop.

Nodes that depend on outer values alone give the same in every step: they move in front of the loop. Nodes that depend
on rows of sequences and outer values alone are computed for all steps at once, on the whole sequence, [T, ...]: one
matrix product instead of T small ones. What remains in the body depends on a state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from caffe2_frontend.emit.subgraphs import Body, formal_row
from caffe2_frontend.interop.bodies import bodies, has_bodies
from caffe2_frontend.interop.operators import PRODUCTS, RANDOM, VIEWS
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.vectorize import Stacked, can_lift, lift

# Measured with onnxruntime: from about this width on, an elementwise node is as fast in the loop as for all steps.
_WIDE = 256


def hoist_invariants(op: Op, body: Body) -> None:
    """Move the nodes that do not depend on the body's inputs in front of the loop.

    One pass suffices, since nodes are in topological order: a node that moves takes its outputs out of ``inside``.
    """
    inside = made_inside(body)
    kept = []
    for node in body.op.scope.nodes:
        if _may_move(node) and not any(value in inside for value in node.inputs):
            op.scope.nodes.append(node)
            inside.difference_update(node.outputs)
        else:
            kept.append(node)
    body.op.scope.nodes[:] = kept


def gather_addends(body: Body) -> Body:
    """Reassociate sums so that a part without states can be hoisted.

    ``(state + constant) + row`` becomes ``state + (row + constant)``; the sum in parentheses is then computed for all
    steps at once. The step net adds in the first order: results may differ from it in the last bit.
    """
    inside = made_inside(body)
    sequences = set(body.rows)
    makers = {node.outputs[0]: node for node in body.op.scope.nodes if node.op_type == "Add"}
    results = {*body.after, *body.stacked}
    replaced: dict[Value, Value] = {}
    nodes, body.op.scope.nodes = body.op.scope.nodes, []
    for node in nodes:
        found = _addends(node, makers, sequences, inside, results) if node.op_type == "Add" else None
        if found is not None:
            inner, state, constant, row = found
            body.op.scope.nodes.remove(inner)
            addend = body.op.emit("Add", row, constant)
            total = body.op.emit("Add", state, addend)
            keep_place(body.op.scope.nodes[-2:-1], inner)
            keep_place(body.op.scope.nodes[-1:], node)
            ir.convenience.replace_all_uses_with(node.outputs[0], total)
            replaced[node.outputs[0]] = total
        else:
            body.op.scope.nodes.append(node)
            if all(value in sequences or value not in inside for value in node.inputs if value is not None):
                sequences.update(node.outputs)
    return _with_results(body, replaced)


def _with_results(body: Body, replaced: dict[Value, Value]) -> Body:
    after, stacked = (tuple(replaced.get(v, v) for v in values) for values in (body.after, body.stacked))
    return dataclasses.replace(body, after=after, stacked=stacked)


def _addends(
    node: ir.Node, makers: dict[Value, ir.Node], sequences: set[Value], inside: set[Value], results: set[Value]
) -> tuple[ir.Node, Value, Value, Value] | None:
    """Return inner sum, state, constant and row, if ``node`` is such a sum and uses the inner one alone."""
    for total, row in (node.inputs, node.inputs[::-1]):
        inner = makers.get(total) if total is not None else None
        if inner is None or row is None or row not in sequences or total in sequences:
            continue
        if len(inner.outputs[0].uses()) > 1 or inner.outputs[0] in results:
            continue
        for state, constant in (inner.inputs, inner.inputs[::-1]):
            if state is None or constant is None or state not in inside or constant in inside:
                continue
            if constant.shape is not None and row.shape is not None and len(constant.shape) <= len(row.shape):
                return inner, state, constant, row
    return None


def hoist_sequences(op: Op, body: Body) -> Body:
    """Compute what depends on the sequences alone for all steps at once.

    ``stacks`` maps each value of the body that is known for all steps to these. A node whose operands are all in it, or
    outside of the body, is emitted once for the stacked operands. The body then gets the rows of the results that it
    still reads as further inputs. Elementwise nodes on wide rows stay in the body, unless a product that leaves it
    needs them: their results for all steps take more memory than a cache has.
    """
    inside = made_inside(body)
    stacks = {
        row: Stacked(sequence, op.rank(sequence) - 1) for row, sequence in zip(body.rows, body.sequences, strict=True)
    }
    kept = []
    left = _wide_nodes(body)
    for node in body.op.scope.nodes:
        lifted = None
        if (
            node not in left
            and _may_move(node)
            and all(v is None or v in stacks or v not in inside for v in node.inputs)
        ):
            before = len(op.scope.nodes)
            lifted = lift(op, node, [stacks.get(v, v) if v is not None else None for v in node.inputs])
            keep_place(op.scope.nodes[before:], node)
        if lifted is None:
            kept.append(node)
        else:
            stacks.update((old, Stacked(new, op.rank(new) - 1)) for old, new in zip(node.outputs, lifted, strict=True))
    body.op.scope.nodes[:] = kept
    return _with_rows(body, stacks)


def _wide_nodes(body: Body) -> set[ir.Node]:
    """Return nodes of a body with wide states that may stay in it: their rows are wide, and no product needs them."""
    pairs = zip(body.states, body.after, strict=True)
    rows = [pair for pair in pairs if any(v.shape is not None and len(v.shape) == 3 for v in pair)]  # others are sums
    if not rows or not all(any(map(_is_wide, pair)) for pair in rows):
        return set()
    inside = made_inside(body)
    known = set(body.rows)
    products: list[Value] = []
    for node in body.op.scope.nodes:
        if _may_move(node) and can_lift(node) and all(v is None or v in known or v not in inside for v in node.inputs):
            known.update(node.outputs)
            products += node.outputs if node.op_type in PRODUCTS else []
    needed: set[ir.Node] = set()
    while products:
        maker = products.pop().producer()
        if maker is not None and maker not in needed and maker.outputs[0] in known:
            needed.add(maker)
            products += [value for value in maker.inputs if value is not None]
    others = (node for node in body.op.scope.nodes if node not in needed and node.op_type not in VIEWS)
    return {node for node in others if _is_wide(node.outputs[0])}


def _is_wide(value: Value) -> bool:
    width = value.shape[-1] if value.shape else None
    return isinstance(width, int) and width >= _WIDE


def keep_place(nodes: Sequence[ir.Node], node: ir.Node) -> None:
    """Copy the metadata of ``node`` to the nodes that replace it: they come from the same operator of the net."""
    for made in nodes:
        made.metadata_props.update(node.metadata_props)


def _with_rows(body: Body, stacks: dict[Value, Stacked]) -> Body:
    """Return the body with an input row for each stacked value that it still reads; at least one, whose length is T."""
    results = {*body.after, *body.stacked}
    used = _used(body.op.scope.nodes) | results
    sequences, rows, replaced = [], [], {}
    for old, stack in stacks.items():
        if old not in used:
            continue
        row = old if old in body.rows else formal_row(body.op, stack.value)
        if row is not old:
            ir.convenience.replace_all_uses_with(old, row)
            replaced[old] = row
        sequences.append(stack.value)
        rows.append(row)
    if not rows:
        sequences, rows = list(body.sequences[:1]), list(body.rows[:1])
    return dataclasses.replace(_with_results(body, replaced), sequences=tuple(sequences), rows=tuple(rows))


def remove_dead_nodes(body: Body) -> None:
    """Remove the nodes of a body whose results are not read."""
    live = {*body.after, *body.stacked}
    kept: list[ir.Node] = []
    for node in reversed(body.op.scope.nodes):
        if live.isdisjoint(node.outputs):
            for index in range(len(node.inputs)):
                node.replace_input_with(index, None)
        else:
            kept.append(node)
            live |= _used([node])
    body.op.scope.nodes[:] = reversed(kept)


def without_unused_rows(body: Body) -> Body:
    """Return the body without the rows that it does not read; at least one sequence stays, whose length is T."""
    used = _used(body.op.scope.nodes) | {*body.after, *body.stacked}
    kept = [(row, sequence) for row, sequence in zip(body.rows, body.sequences, strict=True) if row in used]
    kept = kept or list(zip(body.rows, body.sequences, strict=True))[:1]
    rows, sequences = zip(*kept, strict=True) if kept else ((), ())
    return dataclasses.replace(body, rows=rows, sequences=sequences)


def made_inside(body: Body) -> set[Value]:
    """Return the values that have another content in each step: the body's inputs, and what its nodes compute."""
    made = {value for node in body.op.scope.nodes for value in node.outputs}
    return made | {*body.states, *body.rows}


def _may_move(node: ir.Node) -> bool:
    """Whether a node gives the same at every call."""
    return node.op_type not in RANDOM and not has_bodies(node)


def _used(nodes: list[ir.Node]) -> set[Value]:
    """Return the values that the nodes, or nodes of their bodies, read."""
    used: set[Value] = set()
    for node in nodes:
        used.update(value for value in node.inputs if value is not None)
        for graph in bodies(node):
            used |= _used(list(graph)) | set(graph.outputs)
    return used
