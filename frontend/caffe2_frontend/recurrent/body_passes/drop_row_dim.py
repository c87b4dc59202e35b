"""States without their leading dim of one: [N, D] in a body instead of [1, N, D].

In Caffe2 a step sees its states and sequences as blobs of one row, [1, N, D]. Of products of rank 2 and what is added
to them onnxruntime makes a Gemm, one node for two, and the rows that a step adds to the stacked results are then the
states themselves, not copies without that dim.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

import onnx_ir as ir

from caffe2_frontend.emit.shapes import squeeze
from caffe2_frontend.emit.subgraphs import Body, formal_row, formal_state
from caffe2_frontend.interop.bodies import captured_values
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.recurrent.body_passes.body_nodes import detach
from caffe2_frontend.recurrent.body_passes.hoist import keep_place
from caffe2_frontend.recurrent.vectorize import ELEMENTWISE, emit_like

_RANK: Final = 3
# What computes along an axis, with the axis if none is stated.
_DEFAULT_AXES: Final = {"Concat": 0, "LayerNormalization": -1, "LogSoftmax": -1, "Softmax": -1, "Split": 0}


def drop_row_dim(op: Op, body: Body) -> Body:
    """Return the body with states [N, D] for those of [1, N, D]; the same body if a node needs the leading dim."""
    formal = [*body.states, *(row for row in body.rows if _is_row(row))]
    if not all(map(_is_row, body.states)) or not _is_possible(op, body, formal):
        return body
    initial = [_without(op, value, 0) for value in body.initial]
    sequences = [
        _without(op, value, 1) if row in formal else value for row, value in zip(body.rows, body.sequences, strict=True)
    ]
    states = [formal_state(body.op, value) for value in initial]
    rows = [
        formal_row(body.op, value) if row in formal else row for row, value in zip(body.rows, sequences, strict=True)
    ]
    # Values [1, ...], each with the value that stands for it without the leading dim.
    dropped = dict(zip((*body.states, *body.rows), (*states, *rows), strict=True))
    dropped = {old: new for old, new in dropped.items() if old is not new}
    for old, new in dropped.items():
        _swap_names(old, new)
    replaced = _drop(body, dropped)
    after = [dropped[value] if value in dropped else squeeze(body.op, value, [0]) for value in body.after]
    return dataclasses.replace(
        body,
        initial=tuple(initial),
        sequences=tuple(sequences),
        states=tuple(states),
        rows=tuple(rows),
        after=tuple(after),
        stacked=tuple(replaced.get(value, value) for value in body.stacked),
    )


def _drop(body: Body, dropped: dict[Value, Value]) -> dict[Value, Value]:
    """Emit the nodes of the body that read values in ``dropped`` again, and add their results to it.

    Returns the results of Squeezes that are not needed any more, with what stands for them.
    """
    nodes, body.op.scope.nodes = body.op.scope.nodes, []
    replaced: dict[Value, Value] = {}
    squeezed: dict[Value, Value] = {}
    for node in nodes:
        row = _squeezed(body.op, node)
        if row in dropped:
            replaced[node.outputs[0]] = dropped[row]
            ir.convenience.replace_all_uses_with(node.outputs[0], dropped[row])
            detach(node)
        elif dropped.keys().isdisjoint(node.inputs) or _spreads(node, dropped):
            for index, operand in enumerate(node.inputs):
                if operand in dropped:
                    node.replace_input_with(index, dropped[operand])
            body.op.scope.nodes.append(node)
            if row is not None:
                squeezed[row] = node.outputs[0]
        else:
            _emit_again(body.op, node, dropped)
            detach(node)
    dropped |= squeezed
    return replaced


def _emit_again(op: Op, node: ir.Node, dropped: dict[Value, Value]) -> None:
    changed = _changed(op, node, dropped)
    assert changed is not None
    before = len(op.scope.nodes)
    inputs = [None if value is None else dropped.get(value, value) for value in node.inputs]
    for old, new in zip(node.outputs, emit_like(op, node, inputs, **changed), strict=True):
        _swap_names(old, new)
        dropped[old] = new
    keep_place(op.scope.nodes[before:], node)


def _swap_names(old: Value, new: Value) -> None:
    """Give the value that takes the place of another one its name."""
    old.name, new.name = new.name, old.name


def _is_possible(op: Op, body: Body, formal: Collection[Value]) -> bool:
    """Whether all nodes that read values whose leading dim goes compute the same without it."""
    dropped = set(formal)
    for node in body.op.scope.nodes:
        if not dropped.isdisjoint(captured_values(node)):
            return False
        if dropped.isdisjoint(node.inputs) or _squeezed(op, node) is not None or _spreads(node, dropped):
            continue
        if _changed(op, node, dropped) is None:
            return False
        dropped.update(node.outputs)
    return dropped.isdisjoint(body.stacked)


def _is_row(value: Value) -> bool:
    return value.shape is not None and len(value.shape) == _RANK and value.shape[0] == 1


def _squeezed(op: Op, node: ir.Node) -> Value | None:
    """The value [1, N, D] of which a node removes the leading dim, and no other; None if it does something else."""
    value, axes = (*node.inputs, None, None)[:2] if node.op_type == "Squeeze" else (None, None)
    known = op.known(axes) if value is not None and axes is not None and _is_row(value) else None
    return value if known is not None and known.tolist() in ([0], [-_RANK]) else None


def _spreads(node: ir.Node, dropped: Collection[Value]) -> bool:
    """Whether a node broadcasts values whose leading dim goes to an operand that keeps its own: results stay."""
    if node.op_type not in ELEMENTWISE or node.domain:
        return False
    others = [value.shape for value in node.inputs if value is not None and value not in dropped]
    return any(shape is not None and len(shape) >= _RANK for shape in others)


def _changed(op: Op, node: ir.Node, dropped: Collection[Value]) -> Mapping[str, Any] | None:
    """The attributes with which a node computes the same without the leading dim of its results; None if it cannot.

    Its operands in ``dropped`` have rank 3 with that dim; the others of elementwise operators have a lower rank.
    """
    if node.domain or any(value is not None and value.shape is None for value in node.inputs):
        return None
    if node.op_type in ELEMENTWISE:
        return {}
    split = len(node.inputs) if node.op_type == "Concat" else 1
    first, others = node.inputs[:split], node.inputs[split:]
    if any(value not in dropped for value in first) or any(value in dropped for value in others):
        return None
    if node.op_type == "MatMul":
        return {} if [op.rank(value) for value in others if value is not None] == [2] else None
    default = _DEFAULT_AXES.get(node.op_type)
    axis = 0 if default is None else op.axis(node.attributes.get_int("axis", default), _RANK)
    return {"axis": axis - 1} if axis else None


def _without(op: Op, value: Value, axis: int) -> Value:
    """Remove a dim of one; of a value into which it was inserted, return the original."""
    node = value.producer()
    if node is not None and node.op_type == "Unsqueeze" and node.inputs[0] is not None and node.inputs[1] is not None:
        axes = op.known(node.inputs[1])
        if axes is not None and axes.tolist() == [axis]:
            op.looks_behind(value)
            return node.inputs[0]
    return squeeze(op, value, [axis])
