"""Loops whose results grow: each iteration yields pieces of any length, and the pieces are concatenated.

ONNX stacks the scan outputs of a Loop, so that all rows must have one shape. Here the results are loop-carried tensors
that start with no rows and get each iteration's piece appended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import Size
from caffe2_frontend.emit.subgraphs import loop
from caffe2_frontend.lowering.op import Op, Value

# From the operator inside the body and the iteration's index (int64, []): the pieces, and values to stack.
Build = Callable[[Op, Value], tuple[Sequence[Value], Sequence[Value]]]


def loop_concat(
    op: Op, trips: Size, specs: Sequence[tuple[ir.DataType, tuple[int, ...]]], build: Build
) -> tuple[list[Value], list[Value]]:
    """Emit a Loop that concatenates pieces along their first dim.

    Args:
        op: the operator under conversion.
        trips: the number of iterations.
        specs: element type of each result, and its dims after the first.
        build: builds the body.

    Returns:
        The concatenated results, [k, ...], and the stacked values, [trips, ...].
    """
    empty = [op.const(np.zeros((0, *dims)), dtype) for dtype, dims in specs]

    def step(inside: Op, states: list[Value], iteration: list[Value]) -> tuple[list[Value], Sequence[Value]]:
        pieces, stacked = build(inside, iteration[0])
        return [inside.emit("Concat", s, p, axis=0) for s, p in zip(states, pieces, strict=True)], stacked

    return loop(op, trips, None, empty, step, shapes=[ir.Shape([None, *dims]) for _, dims in specs])
