"""Updates of rows of tables by index, in the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import known_equal
from caffe2_frontend.emit.shapes import cast, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.shapes import indices as positions
from caffe2_frontend.emit.subgraphs import loop
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

    The rows of distinct indices do not depend on each other. So iteration i of a Loop updates, all at once, the rows of
    those indices that occur for the i-th time: there are as many iterations as the most frequent index has occurrences.

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
    # The Loop carries only the rows that are updated, however large the tables are.
    _, first, groups, counts = op.emit("Unique", indices, sorted=1, outputs=4)
    touched = unsqueeze(op, op.emit("Gather", indices, first), [1])
    occurrence, repeats = _occurrences(op, groups, counts)

    def body(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        mask = inside.emit("Equal", occurrence, iteration[0])
        selected = inside.emit("Reshape", inside.emit("NonZero", mask), inside.const([-1], np.int64))
        targets = inside.emit("Gather", groups, selected)
        old = [inside.emit("Gather", table, targets, axis=0) for table in states[: len(tables)]]
        operands = [inside.emit("Gather", row, selected, axis=0) for row in rows]
        new, computed = step(inside, old, operands)
        row_indices, result_indices = unsqueeze(inside, targets, [1]), unsqueeze(inside, selected, [1])
        return [
            *(inside.emit("ScatterND", t, row_indices, v) for t, v in zip(states, new, strict=False)),
            *(
                inside.emit("ScatterND", t, result_indices, v)
                for t, v in zip(states[len(tables) :], computed, strict=True)
            ),
        ], []

    old_rows = [op.emit("GatherND", table, touched) for table in tables]
    after, _ = loop(op, repeats, None, [*old_rows, *results], body)
    new_tables = [op.emit("ScatterND", t, touched, v) for t, v in zip(tables, after, strict=False)]
    return new_tables, after[len(tables) :]


def _occurrences(op: Op, groups: Value, counts: Value) -> tuple[Value, Value]:
    """Return how often the group of each position occurred before it, and how often the most frequent group occurs.

    ``groups`` [K] holds the group of each position, ``counts`` their sizes. Sorting the positions by group, stably,
    makes each group consecutive; the number of an occurrence is its position in the sorted order less its group's
    start.
    """
    count = op.emit("Shape", groups)
    position = positions(op, size(op, groups, 0))
    by_group = op.emit("Add", op.emit("Mul", groups, count), position)
    _, order = op.emit("TopK", by_group, count, axis=0, largest=0, sorted=1, outputs=2)
    starts = op.emit("CumSum", counts, op.const(0, np.int64), exclusive=1)
    index_in_group = op.emit("Sub", position, op.emit("Gather", starts, op.emit("Gather", groups, order)))
    occurrence = op.emit("ScatterElements", position, order, index_in_group, axis=0)
    repeats = op.emit("ReduceMax", op.emit("Concat", counts, op.const([0], np.int64), axis=0), keepdims=0, shape=[])
    return occurrence, repeats
