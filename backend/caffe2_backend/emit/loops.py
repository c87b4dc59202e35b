"""Loops as ONNXWhile, and what is computed with them: running totals and reductions of any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from caffe2_backend.emit.selection import concat, slice_axis
from caffe2_backend.emit.shapes import Size, as_value, dim_of, known_size
from caffe2_backend.lowering.op import Op
from caffe2_backend.lowering.types import UNDEFINED
from caffe2_backend.lowering.value import Value
from caffe2_bridge.control import onnx_while_arguments
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.types import BOOL, INT64


@dataclass(frozen=True)
class LoopBody:
    """The body of a loop, by the names of its blobs.

    Attributes:
        iteration: the formal that holds the number of the iteration, int64 [].
        condition: the formal that holds the condition, bool [].
        states: the formals of the states.
        ops: the operators.
        results: the next condition, the next states, then what is stacked over the iterations.
    """

    iteration: str
    condition: str
    states: Sequence[str]
    ops: Sequence[OperatorDef]
    results: Sequence[str]


def emit_loop(
    op: Op,
    trips: Value | None,
    condition: Value | None,
    initial: Sequence[Value],
    body: LoopBody,
    outputs: Sequence[str],
) -> None:
    """Emit an ONNXWhile that writes the blobs ``outputs``: the last states, then the stacked results.

    It runs ``trips`` iterations where that is given, and as long as the condition holds where that is.
    """
    carried = 1 + len(initial)
    with op.inside() as ops:
        ops.extend(body.ops)
        # Copies, since Caffe2 writes the states one after the other; what is stacked has the dim along which it grows.
        results = [op.blob(name, UNDEFINED) for name in body.results]
        after = [op.emit("Copy", result).name for result in results[:carried]]
        after += [op.emit("ExpandDims", result, dims=[0]).name for result in results[carried:]]
    formals = [body.iteration, body.condition, *body.states]
    net = NetDef(name=op.fresh("body"), op=ops, external_input=formals, external_output=after)
    outer = outer_blobs(ops, formals)
    net.external_input.extend(outer)
    operands = [op.const(0, INT64) if trips is None else trips, is_true(op) if condition is None else condition]
    arguments = onnx_while_arguments(
        net, carried=len(initial), has_trip_count=trips is not None, has_condition=condition is not None
    )
    op.append("ONNXWhile", [*(value.name for value in (*operands, *initial)), *outer], outputs, arguments)


def while_loop(
    op: Op, condition: Value, states: Sequence[Value], step: Callable[..., tuple[Value, ...]]
) -> tuple[Value, ...]:
    """Return the states when the condition no longer holds.

    ``step`` gets the states and returns the next condition (bool []) and the next states; it emits into the body. The
    states keep their element types.
    """
    formals = [op.fresh(f"state{i}") for i in range(len(states))]
    with op.inside() as ops:
        after = step(*(op.blob(name, state.dtype) for name, state in zip(formals, states, strict=True)))
    body = LoopBody(op.fresh("iteration"), op.fresh("condition"), formals, ops, [value.name for value in after])
    results = [op.fresh("result") for _ in states]
    emit_loop(op, None, condition.reshape([]), states, body, results)
    return tuple(op.blob(name, state.dtype) for name, state in zip(results, states, strict=True))


def outer_blobs(ops: Sequence[OperatorDef], formals: Sequence[str]) -> list[str]:
    """Return the blobs around a body that it reads before it writes them."""
    own, outer = set(formals), dict[str, None]()
    for op in ops:
        outer.update(dict.fromkeys(name for name in op.input if name not in own))
        own.update(op.output)
    return list(outer)


def is_true(op: Op) -> Value:
    """Return the constant condition of a loop that runs at least once."""
    return op.const(1, BOOL)


def prefix_reduce(op: Op, op_type: str, value: Value, axis: int, size: Size) -> Value:
    """Return each element of an axis, combined by ``op_type`` with all elements before it.

    Hillis and Steele's scan: each element is combined with the one ``shift`` before it, for shift = 1, 2, 4, ... below
    the size of the axis. After the step of ``shift`` an element covers the 2 * shift elements up to itself.
    """

    def step(sums: Value, shift: Size, rest: Size) -> Value:
        head = slice_axis(op, sums, axis, 0, shift)
        tail = op.emit(op_type, slice_axis(op, sums, axis, shift, size), slice_axis(op, sums, axis, 0, rest))
        return concat(op, [head, tail], axis)

    known = known_size(size)
    if known is not None:
        shift = 1
        while shift < known:
            value, shift = step(value, shift, known - shift), 2 * shift
        return value
    total = as_value(op, size)

    def body(sums: Value, shift: Value) -> tuple[Value, Value, Value]:
        made = step(sums, shift, total - shift)
        doubled = shift + shift
        return (doubled < total).reshape([]), made, doubled

    one = op.const([1], INT64)
    return while_loop(op, one < total, [value, one], body)[0]


def reduce_rows(op: Op, op_type: str, rows: Value, neutral: Value) -> Value:
    """Return all rows combined by ``op_type`` into one, where their number is unknown; ``neutral`` is the neutral row.

    Each round combines the first half of the rows with the second half, and keeps a row that is left over.
    """

    def body(left: Value) -> tuple[Value, Value]:
        size = dim_of(op, left, 0)
        half = size.quotient(op.const([2], INT64))
        both = half + half
        pairs = op.emit(op_type, slice_axis(op, left, 0, 0, half), slice_axis(op, left, 0, half, both))
        made = concat(op, [pairs, slice_axis(op, left, 0, both, size)], 0)
        return (dim_of(op, made, 0) > op.const([1], INT64)).reshape([]), made

    start = concat(op, [neutral, rows], 0)
    return while_loop(op, dim_of(op, start, 0) > op.const([1], INT64), [start], body)[0]
