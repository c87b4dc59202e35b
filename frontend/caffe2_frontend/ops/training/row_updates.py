"""Updates of rows of tables by index, one index after another, in a loop as long as an index is repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import cast, size, sizes, unsqueeze, vector
from caffe2_frontend.emit.shapes import indices as positions
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

# From the tables' rows and the operands' rows for distinct indices: the tables' new rows, and rows of results.
RowStep = Callable[[Op, list[Value], list[Value]], tuple[Sequence[Value], Sequence[Value]]]


def flat_indices(op: Op, indices: Value) -> Value:
    """Indices as an int64 vector."""
    flat = indices if op.rank(indices) == 1 else op.emit("Reshape", indices, op.const([-1], np.int64))
    return cast(op, flat, ir.DataType.INT64)


def rows_for(op: Op, x: Value, indices: Value, table: Value) -> Value:
    """``x`` as one row for each of ``indices``, each as long as a row of ``table``."""
    shape = vector(op, [size(op, indices, 0), *sizes(op, table, 1)])
    return op.emit("Reshape", x, shape, allowzero=1, shape=[op.shape(indices)[0], *op.shape(table)[1:]])


def update_rows(
    op: Op, indices: Value, tables: Sequence[Value], rows: Sequence[Value], results: Sequence[Value], step: RowStep
) -> tuple[list[Value], list[Value]]:
    """Update rows of tables in the order of ``indices``: an index that comes again meets the row as it then is.

    The rows of distinct indices do not depend on each other, so that the first of all indices are updated at once, then
    the second of those that come twice, and so on.

    Args:
        op: the operator under conversion.
        indices: the rows to update, an int64 vector.
        tables: values of shape [R, ...].
        rows: operands, a row for each index.
        results: values of the shape of the results, a row for each index; what they hold is overwritten.
        step: from the tables' rows and the operands' rows, the tables' new rows and the results' rows.

    Returns:
        The tables after the update, and the results.
    """
    # The loop works on the rows that are updated at all, however large the tables are.
    _, first, groups, counts = op.emit("Unique", indices, sorted=1, outputs=4)
    touched = unsqueeze(op, op.emit("Gather", indices, first), [1])
    occurrence, repeats = _occurrences(op, groups, counts)

    def body(inside: Op, states: list[Value], numbers: list[Value]) -> tuple[list[Value], list[Value]]:
        mask = inside.emit("Equal", occurrence, numbers[0])
        places = inside.emit("Reshape", inside.emit("NonZero", mask), inside.const([-1], np.int64))
        now = inside.emit("Gather", groups, places)
        old = [inside.emit("Gather", table, now, axis=0) for table in states[: len(tables)]]
        given = [inside.emit("Gather", row, places, axis=0) for row in rows]
        new, made = step(inside, old, given)
        where_rows, where_results = unsqueeze(inside, now, [1]), unsqueeze(inside, places, [1])
        return [
            *(inside.emit("ScatterND", t, where_rows, v) for t, v in zip(states, new, strict=False)),
            *(inside.emit("ScatterND", t, where_results, v) for t, v in zip(states[len(tables) :], made, strict=True)),
        ], []

    old_rows = [op.emit("GatherND", table, touched) for table in tables]
    after, _ = loop(op, repeats, None, [*old_rows, *results], body)
    new_tables = [op.emit("ScatterND", t, touched, v) for t, v in zip(tables, after, strict=False)]
    return new_tables, after[len(tables) :]


def _occurrences(op: Op, groups: Value, counts: Value) -> tuple[Value, Value]:
    """How often the group of each place came before, and how often the largest group comes."""
    count = op.emit("Shape", groups)
    places = positions(op, size(op, groups, 0))
    by_group = op.emit("Add", op.emit("Mul", groups, count), places)
    _, order = op.emit("TopK", by_group, count, axis=0, largest=0, sorted=1, outputs=2)
    starts = op.emit("CumSum", counts, op.const(0, np.int64), exclusive=1)
    number = op.emit("Sub", places, op.emit("Gather", starts, op.emit("Gather", groups, order)))
    occurrence = op.emit("ScatterElements", places, order, number, axis=0)
    repeats = op.emit("ReduceMax", op.emit("Concat", counts, op.const([0], np.int64), axis=0), keepdims=0, shape=[])
    return occurrence, repeats
