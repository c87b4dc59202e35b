"""Updates of rows of tables by index, in the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import known_equal
from caffe2_frontend.emit.shapes import END, as_vector, cast, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.shapes import indices as positions
from caffe2_frontend.emit.subgraphs import branch, loop
from caffe2_frontend.lowering.op import Op, Value

# From the tables' rows and the operands' rows for distinct indices: the tables' new rows, and rows of results.
RowStep = Callable[[Op, list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]


def flat_indices(op: Op, indices: Value) -> Value:
    """Return indices as an int64 vector."""
    flat = as_vector(op, indices)
    return cast(op, flat, ir.DataType.INT64)


def as_table(op: Op, x: Value) -> Value:
    """Return ``x`` [R, ...] itself; a scalar as a table of one row, as which kernels take it that read no first dim."""
    return x if op.rank(x) else as_vector(op, x)


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
    updated at once. Otherwise iteration i of a Loop, its i-th turn, updates the rows of the indices that occur for the
    i-th time: there are as many turns as the most frequent index has occurrences. The tables are read before the If and
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


@dataclass(frozen=True)
class _Turns:
    """Indices [K], of which U are distinct, in the order of their turns: first all that occur for the first time.

    Attributes:
        positions: where in the indices each is, [K].
        groups: which of the distinct indices each is, from 0 on, [K].
        starts: where in these the turns begin, [turns, 1].
        ends: where they end, [turns, 1].
        count: the number of turns, [].
        first: where in the indices the distinct ones occur first, [U].
    """

    positions: Value
    groups: Value
    starts: Value
    ends: Value
    count: Value
    first: Value


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
    turns = _turns(op, indices)
    operands = [op.emit("Gather", row, turns.positions, axis=0) for row in rows]
    distinct = [op.emit("Gather", row, turns.first, axis=0) for row in old]
    count = len(old)

    def body(inside: Op, values: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        start, end = (inside.emit("Gather", bounds, iteration[0], axis=0) for bounds in (turns.starts, turns.ends))

        def of_turn(value: Value) -> Value:
            return inside.emit("Slice", value, start, end, inside.const([0], np.int64))

        groups = of_turn(turns.groups)
        before = [inside.emit("Gather", value, groups, axis=0) for value in values[:count]]
        new, computed = step(inside, before, [of_turn(operand) for operand in operands])
        targets = [unsqueeze(inside, groups, [1])] * count
        if results:
            targets += [unsqueeze(inside, of_turn(turns.positions), [1])] * len(results)
        written = zip(values, targets, [*new, *computed], strict=True)
        return [inside.emit("ScatterND", value, target, row) for value, target, row in written], []

    after, _ = loop(op, turns.count, None, [*distinct, *results], body)
    return [unsqueeze(op, op.emit("Gather", indices, turns.first), [1]), *after]


def _turns(op: Op, indices: Value) -> _Turns:
    """Emit the turns of ``indices`` [K]."""
    count, position = op.emit("Shape", indices), positions(op, size(op, indices, 0))
    zero, one, edge = op.const(0, np.int64), op.const(1, np.int64), op.const([True])

    def sort(keys: Value) -> Value:
        """Return the positions of the sorted keys; of equal keys the first one's first: TopK need not be stable."""
        distinct = op.emit("Add", op.emit("Mul", keys, count), position)
        _, order = op.emit("TopK", distinct, count, axis=0, largest=0, sorted=1, outputs=2)
        return order

    def begins(in_order: Value) -> Value:
        """Return which elements of a sorted vector differ from their predecessors."""
        return op.emit("Concat", edge, op.emit("Not", _equals_successor(op, in_order)), axis=0)

    order = sort(indices)
    is_first = begins(op.emit("Gather", indices, order))
    first = _flat_nonzero(op, is_first)
    group = op.emit("Sub", op.emit("CumSum", cast(op, is_first, ir.DataType.INT64), zero, exclusive=0), one)
    occurrence = op.emit("Sub", position, op.emit("Gather", first, group))
    by_turn = sort(occurrence)
    starts = _flat_nonzero(op, begins(op.emit("Gather", occurrence, by_turn)))
    ends = op.emit("Concat", op.emit("Slice", starts, *(op.const([i], np.int64) for i in (1, END, 0))), count, axis=0)
    return _Turns(
        op.emit("Gather", order, by_turn),
        op.emit("Gather", group, by_turn),
        unsqueeze(op, starts, [1]),
        unsqueeze(op, ends, [1]),
        op.emit("Size", starts),
        op.emit("Gather", order, first),
    )


def _flat_nonzero(op: Op, mask: Value) -> Value:
    """Return the indices of a vector's elements that are true."""
    return op.emit("Reshape", op.emit("NonZero", mask), op.const([-1], np.int64))
