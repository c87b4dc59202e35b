"""Results that a loop grows: each iteration gives a piece of any length, and the pieces are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

# From the operator in the body and the iteration's number: the pieces, and values to stack.
Build = Callable[[Op, Value], tuple[Sequence[Value], Sequence[Value]]]


def join_pieces(
    op: Op, trips: Size, kinds: Sequence[tuple[ir.DataType, tuple[int, ...]]], build: Build
) -> tuple[list[Value], list[Value]]:
    """Emit a Loop that joins pieces along their first dim.

    Args:
        op: the operator under conversion.
        trips: the number of iterations.
        kinds: element type of each result, and its dims after the first.
        build: builds the body.

    Returns:
        The joined results, [k, ...], and the stacked values.
    """
    before = [op.const(np.zeros((0, *dims)), dtype) for dtype, dims in kinds]

    def step(inside: Op, states: list[Value], numbers: list[Value]) -> tuple[list[Value], Sequence[Value]]:
        pieces, stacked = build(inside, numbers[0])
        return [inside.emit("Concat", s, p, axis=0) for s, p in zip(states, pieces, strict=True)], stacked

    return loop(op, trips, None, before, step, shapes=[ir.Shape([None, *dims]) for _, dims in kinds])
