"""Updates of rows of tables by index, in the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import known_equal
from caffe2_frontend.emit.shapes import END, cast, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.shapes import indices as positions
from caffe2_frontend.emit.subgraphs import branch, loop
from caffe2_frontend.lowering.op import Op, Value

# From the tables' rows and the operands' rows for distinct indices: the tables' new rows, and rows of results.
RowStep = Callable[[Op, list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]


def flat_indices(op: Op, indices: Value) -> Value:
    """Return indices as an int64 vector."""
    flat = indices if op.rank(indices) == 1 else op.emit("Reshape", indices, op.const([-1], np.int64))
    return cast(op, flat, ir.DataType.INT64)


def rows_for(op: Op, x: Value, indices: Value, table: Value) -> Value:
    """Reshape ``x`` to one row per index, each of the shape of a row of ``table``."""
    shape = ir.Shape([op.shape(indices)[0], *op.shape(table)[1:]])
    if x.shape is not None and known_equal(x.shape, shape):
        return x
    dims = vector(op, [size(op, indices, 0), *sizes(op, table, 1)])
    return op.emit("Reshape", x, dims, allowzero=1, shape=shape)


def update_rows(
    op: Op, indices: Value, tables: Sequence[Value], rows: Sequence[Value], results: Sequence[Value], step: RowStep
) -> tuple[list[Value], list[Value]]:
    """Update rows of tables in the order of ``indices``: a repeated index sees the row as it was updated before.

    The rows of distinct indices do not depend on each other: if no index is repeated, which an If tests, all rows are
    updated at once. Otherwise iteration i of a Loop updates the rows of those indices that occur for the i-th time:
    there are as many iterations as the most frequent index has occurrences. The tables are read before the If and
    written after it, so that a runtime can update them in place; If and Loop have the updated rows only.

    Args:
        op: the operator under conversion.
        indices: the rows to update, an int64 vector.
        tables: values of shape [R, ...].
        rows: operands with one row per index.
        results: values of the shape of the results, one row per index; their contents are overwritten.
        step: from the tables' rows and the operands' rows, the tables' new rows and the results' rows.

    Returns:
        The tables after the update, and the results.
    """
    old = [op.emit("Gather", table, indices, axis=0) for table in tables]

    def at_once(inside: Op) -> list[Value]:
        new, computed = step(inside, old, list(rows))
        return [unsqueeze(inside, indices, [1]), *new, *computed]

    def in_turn(inside: Op) -> list[Value]:
        return _update_in_turn(inside, indices, old, rows, results, step)

    if op.shape(indices)[0] == 1:
        targets, *after = at_once(op)
    else:
        targets, *after = branch(op, _is_any_repeated(op, indices), in_turn, at_once)
    count = len(tables)
    return [op.emit("ScatterND", t, targets, v) for t, v in zip(tables, after[:count], strict=True)], after[count:]


def _is_any_repeated(op: Op, indices: Value) -> Value:
    """Return whether any of ``indices`` [K] occurs more than once: when sorted, it equals its successor."""
    in_order, _ = op.emit("TopK", indices, op.emit("Shape", indices), axis=0, largest=0, sorted=1, outputs=2)
    repeated = op.emit("NonZero", _equals_successor(op, in_order))
    return cast(op, op.emit("Size", repeated), ir.DataType.BOOL)


def _equals_successor(op: Op, vector: Value) -> Value:
    """Return whether the elements of ``vector`` [K], but for the last one, equal their successors, [K - 1]."""
    zero, one, last, end = (op.const([value], np.int64) for value in (0, 1, -1, END))
    return op.emit("Equal", op.emit("Slice", vector, zero, last, zero), op.emit("Slice", vector, one, end, zero))


def _update_in_turn(
    op: Op, indices: Value, old: Sequence[Value], rows: Sequence[Value], results: Sequence[Value], step: RowStep
) -> list[Value]:
    """Update rows in the order of ``indices`` [K], some of which are repeated.

    Args:
        op: the operator inside the branch.
        indices: the rows to update.
        old: the tables' rows before the update, one per index.
        rows: operands with one row per index.
        results: values of the shape of the results, one row per index.
        step: as for :func:`update_rows`.

    Returns:
        The distinct indices, [U, 1]; the tables' new rows for these; and the results, one row per index.
    """
    order, occurrence, last = _occurrences(op, indices)
    # A first occurrence updates the row of the table, a later one the row of the occurrence before it.
    repeated = op.emit("Min", occurrence, op.const(1, np.int64))
    source = op.emit("Gather", order, op.emit("Sub", positions(op, size(op, indices, 0)), repeated))
    most = op.emit("ReduceMax", op.emit("Concat", occurrence, op.const([-1], np.int64), axis=0), keepdims=0, shape=[])
    count = len(old)

    def body(inside: Op, values: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        selected = _flat_nonzero(inside, inside.emit("Equal", occurrence, iteration[0]))
        here, before = (inside.emit("Gather", v, selected) for v in (order, source))
        operands = [inside.emit("Gather", row, here, axis=0) for row in rows]
        new, computed = step(inside, [inside.emit("Gather", v, before, axis=0) for v in values[:count]], operands)
        written = unsqueeze(inside, here, [1])
        pairs = zip(values, [*new, *computed], strict=True)
        return [inside.emit("ScatterND", value, written, row) for value, row in pairs], []

    after, _ = loop(op, op.emit("Add", most, op.const(1, np.int64)), None, [*old, *results], body)
    final = op.emit("Gather", order, last)
    new_rows = [op.emit("Gather", v, final, axis=0) for v in after[:count]]
    return [unsqueeze(op, op.emit("Gather", indices, final), [1]), *new_rows, *after[count:]]


def _occurrences(op: Op, indices: Value) -> tuple[Value, Value, Value]:
    """Sort ``indices`` [K] stably, and count the occurrences of each.

    Returns:
        The positions in ``indices`` of the sorted indices, [K]; how often each of these occurred before, [K]; and the
        positions in the sorted order of the last occurrences, [U].
    """
    count, position = op.emit("Shape", indices), positions(op, size(op, indices, 0))
    # No two keys are equal, so that it does not matter whether TopK is stable.
    keys = op.emit("Add", op.emit("Mul", indices, count), position)
    _, order = op.emit("TopK", keys, count, axis=0, largest=0, sorted=1, outputs=2)
    differs = op.emit("Not", _equals_successor(op, op.emit("Gather", indices, order)))
    edge = op.const([True])
    is_first = op.emit("Concat", edge, differs, axis=0)
    group = op.emit("CumSum", cast(op, is_first, ir.DataType.INT64), op.const(0, np.int64), exclusive=0)
    start = op.emit("Gather", _flat_nonzero(op, is_first), op.emit("Sub", group, op.const(1, np.int64)))
    last = _flat_nonzero(op, op.emit("Concat", differs, edge, axis=0))
    return order, op.emit("Sub", position, start), last


def _flat_nonzero(op: Op, mask: Value) -> Value:
    """Return the indices of a vector's elements that are true."""
    return op.emit("Reshape", op.emit("NonZero", mask), op.const([-1], np.int64))
