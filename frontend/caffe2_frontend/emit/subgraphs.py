"""ONNX's If, Loop and Scan, whose bodies are built by Python functions that emit into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeGuard

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size, reverse_rows, size, squeeze, unsqueeze
from caffe2_frontend.interop.bodies import bodies
from caffe2_frontend.lowering.op import Op, Value

# The largest number of iterations that are unrolled, by form.
_MAX_UNROLLED: Final = {"portable": 16, "unrolled": 64}

# From the operator inside the body, the states and the rows of one step: the states after it, and the values to stack.
LoopStep = Callable[[Op, list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]


@dataclass(frozen=True)
class Body:
    """The body of a loop along sequences, before it is emitted as a Scan or a Loop.

    Attributes:
        op: the operator inside the body, which emits its nodes.
        initial: outer values, the states before the first step.
        sequences: outer values [T, ...], of which each step gets one row.
        states: formal inputs, the states before a step.
        rows: formal inputs, the rows of ``sequences`` at a step.
        after: the states after a step.
        stacked: the rows that a step adds to the stacked results.
    """

    op: Op
    initial: tuple[Value, ...]
    sequences: tuple[Value, ...]
    states: tuple[Value, ...]
    rows: tuple[Value, ...]
    after: tuple[Value, ...]
    stacked: tuple[Value, ...]


def scan(
    op: Op, initial: Sequence[Value], sequences: Sequence[Value], step: LoopStep, *, reverse: bool = False
) -> tuple[list[Value], list[Value]]:
    """Emit a Scan along the first dim of ``sequences``; in the form ``portable`` what runtimes other than ours take.

    Args:
        op: the operator under conversion.
        initial: the states before the first step; their shapes must not change.
        sequences: values [T, ...]; a step gets one row of each, without the leading dim.
        step: builds the body.
        reverse: iterate from the last row to the first; stacked values keep the index of their row.

    Returns:
        The states after the last step, and the stacked values, [T, ...].
    """
    body = build_body(op, initial, sequences, step)
    if op.lowering.recurrent == "portable":
        return emit_steps(op, body, size(op, sequences[0], 0), reverse=reverse)
    return emit_scan(op, body, reverse=reverse)


def emit_steps(op: Op, body: Body, trips: Size, *, reverse: bool = False) -> tuple[list[Value], list[Value]]:
    """Emit a body in the form of the export, a Loop or a Scan; return what :func:`emit_scan` does."""
    return emit_loop(op, body, trips, reverse=reverse) if becomes_loop(op) else emit_scan(op, body, reverse=reverse)


def becomes_loop(op: Op) -> bool:
    """Whether steps become a Loop, not a Scan, in the form of the export and for its target."""
    form = op.lowering.recurrent
    return form == "loop" or (form == "portable" and not op.lowering.target.scans)


def build_body(op: Op, initial: Sequence[Value], sequences: Sequence[Value], step: LoopStep) -> Body:
    """Build the body of a loop along ``sequences``; the arguments are those of :func:`scan`."""
    inside = op.inside(op.scope.child())
    states = [_formal(inside, value, value.shape) for value in initial]
    rows = [formal_row(inside, value) for value in sequences]
    after, stacked = step(inside, states, rows)
    for before, value in zip(initial, after, strict=True):
        op.dims.equate_shapes(before.shape, value.shape)
    return Body(inside, tuple(initial), tuple(sequences), tuple(states), tuple(rows), tuple(after), tuple(stacked))


def emit_scan(op: Op, body: Body, *, reverse: bool = False) -> tuple[list[Value], list[Value]]:
    """Emit a body as a Scan, or unrolled; return the states after the last step, and the stacked values, [T, ...]."""
    if _is_unrolled(trips := op.static_dim(body.sequences[0], 0), op):
        return _unroll(op, body, trips, reverse=reverse)
    results = _copy_results(body.op, [*body.after, *body.stacked])
    graph = body.op.scope.graph([*body.states, *body.rows], results, "body")
    outputs = _emit(
        op,
        "Scan",
        [*body.initial, *body.sequences],
        len(results),
        body=graph,
        num_scan_inputs=len(body.rows),
        scan_input_directions=[1] * len(body.rows) if reverse else None,
        scan_output_directions=[1] * len(body.stacked) or None if reverse else None,
    )
    steps = op.shape(body.sequences[0])[0]
    return _finals(outputs, body.initial), _stacks(outputs, results, len(body.initial), steps)


def emit_loop(op: Op, body: Body, trips: Size, *, reverse: bool = False) -> tuple[list[Value], list[Value]]:
    """Emit a body as a Loop that gathers the rows of its sequences; return what :func:`emit_scan` does.

    In the forms ``portable`` and ``unrolled``, a few steps of a known number are unrolled.
    """
    if _is_unrolled(trips, op):
        return _unroll(op, body, trips, reverse=reverse)
    iteration, going = _loop_inputs(op)
    final = op.emit("Sub", _scalar(op, trips), op.const(1, np.int64)) if reverse else None
    # The Gathers go before the nodes of the body, which read their results instead of the formal rows.
    nodes, body.op.scope.nodes = body.op.scope.nodes, []
    index = iteration if final is None else body.op.emit("Sub", final, iteration)
    for sequence, row in zip(body.sequences, body.rows, strict=True):
        gathered = _row_at(body.op, sequence, index)
        ir.convenience.replace_all_uses_with(row, gathered)
        replaced = {row: gathered}
        body = _with_results(body, replaced)
    body.op.scope.nodes += nodes
    results = _copy_results(body.op, [going, *body.after, *body.stacked])
    graph = body.op.scope.graph([iteration, going, *body.states], results, "body")
    outputs = _emit(op, "Loop", [_scalar(op, trips), op.const(array=True), *body.initial], len(results) - 1, body=graph)
    steps = trips if isinstance(trips, int) else None
    stacks = _stacks(outputs, results[1:], len(body.initial), steps)
    return _finals(outputs, body.initial), [reverse_rows(op, stack) for stack in stacks] if reverse else stacks


def _row_at(op: Op, sequence: Value, index: Value) -> Value:
    """Gather the row of an iteration, also where its index has one dim in the target."""
    if op.lowering.target.scalars:
        row: Value = op.emit("Gather", sequence, index, axis=0)
        return row
    vector = op.emit("Reshape", index, op.const([1], np.int64), shape=[1])
    return squeeze(op, op.emit("Gather", sequence, vector, axis=0), [0])


def _is_unrolled(trips: Size | None, op: Op) -> TypeGuard[int]:
    """Whether each step of a loop becomes a copy of its body."""
    return isinstance(trips, int) and 0 < trips <= _MAX_UNROLLED.get(op.lowering.recurrent, 0)


def _unroll(op: Op, body: Body, trips: int, *, reverse: bool) -> tuple[list[Value], list[Value]]:
    """Emit a copy of a body for each step; return what :func:`emit_scan` does."""
    results = _copy_results(body.op, [*body.after, *body.stacked])
    graph = body.op.scope.graph([*body.states, *body.rows], results, "body")
    states, stacks = list(body.initial), [[] for _ in body.stacked]  # type: list[Value], list[list[Value]]
    for step in reversed(range(trips)) if reverse else range(trips):
        rows = [op.emit("Gather", sequence, op.const(step, np.int64), axis=0) for sequence in body.sequences]
        copy = graph.clone(allow_outer_scope_values=True)
        for formal, value in zip(copy.inputs, [*states, *rows], strict=True):
            ir.convenience.replace_all_uses_with(formal, value)
        outputs, nodes = list(copy.outputs), list(copy)
        copy.outputs.clear()
        copy.remove(nodes)
        _rename_outputs(op, nodes)
        op.scope.nodes += nodes
        states = outputs[: len(states)]
        for stack, value in zip(stacks, outputs[len(states) :], strict=True):
            stack.append(unsqueeze(op, value, [0]))
    for node in graph:  # it no longer counts among the uses of outer values
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)
    for stack in stacks:
        stack[:] = reversed(stack) if reverse else stack
    return states, [op.emit("Concat", *stack, axis=0) for stack in stacks]


def _rename_outputs(op: Op, nodes: Iterable[ir.Node]) -> None:
    """Give the outputs of copied nodes, also of those in bodies, names of their own."""
    for node in nodes:
        node.name = None
        for value in node.outputs:
            value.name = op.scope.names.fresh(value.name or "") if value.name else value.name
        for body in bodies(node):
            for value in body.inputs:
                value.name = op.scope.names.fresh(str(value.name))
            _rename_outputs(op, body)


def discard_body(body: Body) -> None:
    """Discard a body that is not emitted, so that its nodes no longer count as uses of outer values."""
    for node in body.op.scope.nodes:
        for i in range(len(node.inputs)):
            node.replace_input_with(i, None)


def loop(
    op: Op,
    trips: Size | None,
    condition: Value | None,
    initial: Sequence[Value],
    step: LoopStep,
    shapes: Sequence[ir.Shape | None] | None = None,
) -> tuple[list[Value], list[Value]]:
    """Emit a Loop.

    Args:
        op: the operator under conversion.
        trips: the maximum number of iterations; None for no limit.
        condition: whether to run the first iteration, a bool of one element; None for a Loop without a condition.
        initial: the states before the first iteration.
        step: builds the body; its second list holds the iteration index (int64, []). With a ``condition`` the first of
            the returned states is the condition for the next iteration.
        shapes: the shapes of the states that hold in every iteration; by default those of ``initial``.

    Returns:
        The states after the last iteration, and the stacked values.
    """
    limit = None if trips is None else _scalar(op, trips)
    inside = op.inside(op.scope.child())
    iteration, going = _loop_inputs(op)
    shapes = [value.shape for value in initial] if shapes is None else shapes
    states = [_formal(inside, value, shape) for value, shape in zip(initial, shapes, strict=True)]
    after, stacked = step(inside, states, [iteration])
    after = [_as_condition(inside, after[0]), *after[1:]] if condition is not None else [going, *after]
    results = _copy_results(inside, [*after, *stacked])
    body = inside.scope.graph([iteration, going, *states], results, "body")
    # A condition is always given: ONNX's shape inference requires one where there are no states, and its reference
    # evaluator takes a missing one for false.
    first = op.const(array=True) if condition is None else _as_condition(op, condition)
    outputs = _emit(op, "Loop", [limit, first, *initial], len(results) - 1, body=body)
    finals = outputs[: len(initial)]
    for output, start, result in zip(finals, initial, results[1:], strict=False):
        output.type, output.shape = result.type, common_shape(start.shape, result.shape)
    return finals, _stacks(outputs, results[1:], len(initial), None)


def branch(
    op: Op, condition: Value, then: Callable[[Op], Sequence[Value]], otherwise: Callable[[Op], Sequence[Value]]
) -> list[Value]:
    """Emit an If from builders of its branches, which must yield values of the same types."""
    sides = [op.inside(op.scope.child()) for _ in range(2)]
    return emit_branches(op, condition, [(sides[0], then(sides[0])), (sides[1], otherwise(sides[1]))])


def emit_branches(op: Op, condition: Value, sides: Sequence[tuple[Op, Sequence[Value]]]) -> list[Value]:
    """Emit an If from its branches, then and else: the operator inside each, and the values that it yields."""
    results = [_copy_results(inside, values) for inside, values in sides]
    then_graph, else_graph = (
        inside.scope.graph([], values, name)
        for (inside, _), values, name in zip(sides, results, ("then", "else"), strict=True)
    )
    outputs = _emit(op, "If", [condition], len(results[0]), then_branch=then_graph, else_branch=else_graph)
    for output, a, b in zip(outputs, *results, strict=True):
        output.type, output.shape = a.type, common_shape(a.shape, b.shape)
    return outputs


def unless_empty(
    op: Op, steps: Size, run: Callable[[Op], Sequence[Value]], skip: Callable[[Op], Sequence[Value]]
) -> list[Value]:
    """Emit ``run``, or ``skip`` without steps, which a Scan requires; an If of both if their number is unknown.

    In the form ``portable`` the caller promises that there are steps.
    """
    if op.lowering.recurrent == "portable":
        return list(run(op))
    if isinstance(steps, int):
        return list((run if steps else skip)(op))
    some = op.emit("Greater", _scalar(op, steps), op.const(0, np.int64))
    return branch(op, some, run, skip)


def formal_row(op: Op, sequence: Value) -> Value:
    """Make a body's formal input for one row of a sequence."""
    return _formal(op, sequence, ir.Shape(op.shape(sequence)[1:]))


def _formal(op: Op, outer: Value, shape: ir.Shape | None) -> Value:
    """Make a formal input of a body, named after the outer value and of its type."""
    name = op.scope.names.fresh(f"{outer.name}_t")
    return ir.Value(name=name, type=outer.type, shape=None if shape is None else ir.Shape(shape))


def _loop_inputs(op: Op) -> tuple[Value, Value]:
    """Make the formal inputs of a Loop's body for the iteration index and the condition."""
    names = op.scope.names
    iteration = ir.Value(name=names.fresh("iteration"), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))
    going = ir.Value(name=names.fresh("going"), type=ir.TensorType(ir.DataType.BOOL), shape=ir.Shape([]))
    return iteration, going


def _with_results(body: Body, replaced: dict[Value, Value]) -> Body:
    """Replace values among the results of a body."""
    after = tuple(replaced.get(value, value) for value in body.after)
    stacked = tuple(replaced.get(value, value) for value in body.stacked)
    return Body(body.op, body.initial, body.sequences, body.states, body.rows, after, stacked)


def _copy_results(op: Op, values: Sequence[Value]) -> list[Value]:
    """Copy a body's results: each output of a graph must be a distinct value that one of its own nodes computes."""
    return [op.emit("Identity", value) for value in values]


def _as_condition(op: Op, value: Value) -> Value:
    """Reshape a bool of one element to a scalar."""
    known = value.shape is not None and len(value.shape) == 0
    return value if known else op.emit("Reshape", value, op.const(np.array([], np.int64)), shape=[])


def _scalar(op: Op, trips: Size) -> Value:
    if isinstance(trips, int):
        return op.const(trips, np.int64)
    return trips if op.rank(trips) == 0 else op.emit("Squeeze", trips)


def _emit(op: Op, op_type: str, inputs: Sequence[Value | None], outputs: int, **attrs: object) -> list[Value]:
    emitted = op.emit(op_type, *inputs, outputs=outputs, **attrs)
    return list(emitted) if isinstance(emitted, tuple) else [emitted]


def _finals(outputs: Sequence[Value], initial: Sequence[Value]) -> list[Value]:
    return [_like(output, value) for output, value in zip(outputs, initial, strict=False)]


def _like(output: Value, value: Value) -> Value:
    output.type, output.shape = value.type, value.shape
    return output


def _stacks(outputs: Sequence[Value], results: Sequence[Value], first: int, steps: object) -> list[Value]:
    for output, value in list(zip(outputs, results, strict=True))[first:]:
        output.type = value.type
        output.shape = None if value.shape is None else ir.Shape([steps, *value.shape])  # type: ignore[list-item] # a dim
    return list(outputs[first:])


def common_shape(a: ir.Shape | None, b: ir.Shape | None) -> ir.Shape | None:
    """Return the shape that holds for both: dims that differ are unknown, and so is the shape if the ranks differ."""
    if a is None or b is None or len(a) != len(b):
        return None
    return ir.Shape([x if x == y else None for x, y in zip(a, b, strict=True)])
