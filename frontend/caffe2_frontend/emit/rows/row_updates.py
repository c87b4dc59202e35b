"""Updates of rows of tables by index, in the order of the indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.arithmetic import known_equal
from caffe2_frontend.emit.selection import true_indices
from caffe2_frontend.emit.shapes import END, as_vector, cast, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.shapes import indices as positions
from caffe2_frontend.emit.subgraphs import loop
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

    The rows of distinct indices do not depend on each other: iteration i of a Loop, its i-th turn, updates the rows of
    the indices that occur for the i-th time. There are as many turns as the most frequent index has occurrences. The
    tables are read before the Loop and written after it, so that a runtime can update them in place; the Loop has the
    updated rows only.

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
    count = len(tables)
    if op.shape(indices)[0] == 1:
        targets = unsqueeze(op, indices, [1])
        new, computed = step(op, [op.emit("Gather", table, indices, axis=0) for table in tables], list(rows))
        after = [*new, *computed]
    else:
        distinct, after = _update_in_turn(op, indices, tables, rows, results, step)
        targets = unsqueeze(op, distinct, [1])
    return [op.emit("ScatterND", t, targets, v) for t, v in zip(tables, after[:count], strict=True)], after[count:]


def _update_in_turn(
    op: Op, indices: Value, tables: Sequence[Value], rows: Sequence[Value], results: Sequence[Value], step: RowStep
) -> tuple[Value, list[Value]]:
    """Return the distinct indices [U], the tables' new rows for these, and the results, one row per index.

    The arguments are those of :func:`update_rows`.
    """
    order, starts, distinct, counts = _occurrences(op, indices)
    old = [op.emit("Gather", table, distinct, axis=0) for table in tables]

    def body(inside: Op, values: list[Value], iteration: list[Value]) -> tuple[list[Value], list[Value]]:
        occurs = inside.emit("Greater", counts, iteration[0])
        targets = inside.emit("Transpose", inside.emit("NonZero", occurs))
        nth = inside.emit("Add", inside.emit("GatherND", starts, targets), iteration[0])
        at = inside.emit("Gather", order, nth, axis=0)
        before = [inside.emit("GatherND", value, targets) for value in values[: len(old)]]
        new, computed = step(inside, before, [inside.emit("Gather", row, at, axis=0) for row in rows])
        places = [targets] * len(old)
        if results:
            places += [unsqueeze(inside, at, [1])] * len(results)
        written = zip(values, places, [*new, *computed], strict=True)
        return [inside.emit("ScatterND", value, target, row) for value, target, row in written], []

    after, _ = loop(op, _largest(op, counts), None, [*old, *results], body)
    return distinct, after


def _occurrences(op: Op, indices: Value) -> tuple[Value, Value, Value, Value]:
    """Return where each of U distinct indices occurs among ``indices`` [K]: at ``order[starts[u] + n]``, n < counts[u].

    Returns:
        ``order``, the positions of the sorted indices [K], of equal ones the first one's first, for which TopK need not
        be stable; ``starts`` [U]; the distinct indices [U]; and ``counts`` [U].
    """
    count, first = op.emit("Shape", indices), op.const([0], np.int64)
    keys = op.emit("Add", op.emit("Mul", indices, count), positions(op, size(op, indices, 0)))
    _, order = op.emit("TopK", keys, count, axis=0, largest=0, sorted=1, outputs=2)
    in_order = op.emit("Gather", indices, order, axis=0)
    before = op.emit("Slice", in_order, first, op.const([-1], np.int64), first)
    is_new = op.emit("Less", op.emit("Concat", op.const([-1], np.int64), before, axis=0), in_order)
    starts = true_indices(op, is_new)
    ends = op.emit("Concat", op.emit("Slice", starts, *(op.const([i], np.int64) for i in (1, END, 0))), count, axis=0)
    return order, starts, op.emit("Gather", in_order, starts, axis=0), op.emit("Sub", ends, starts)


def _largest(op: Op, counts: Value) -> Value:
    """Return the largest of the counts, []; 0 if there are none."""
    return op.emit("ReduceMax", op.emit("Concat", op.const([0], np.int64), counts, axis=0), keepdims=0)
