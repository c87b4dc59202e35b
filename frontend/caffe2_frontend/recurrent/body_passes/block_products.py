"""Narrow products of large sums in blocks, such as the scores of attention.

In every step attention adds a row of the decoder to all rows of the encoder [S, N, H], takes the tanh, and multiplies
by a vector. Where the sum is larger than the caches, each of these three nodes reads it from memory, and two write it.
Of sums in blocks that stay in the cache, the encoder's rows alone are read from memory. Of the processor time of the
steps, one thread, blocks of 4 MiB take 0.75 (S=500 N=64 H=256), and those of 1.6 MiB 0.78 (S=200); below 8 MiB in all
nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import onnx_ir as ir

from caffe2_frontend.emit.shapes import END, Size, product, quotient, size, sizes, slice_axis, squeeze
from caffe2_frontend.emit.subgraphs import Body, branch
from caffe2_frontend.interop.operators import PLAIN_ACTIVATIONS
from caffe2_frontend.lowering.op import Op, Value

BLOCKS: Final = 8
# Sums of fewer elements stay in the caches.
MIN_ELEMENTS: Final = 1 << 21
# To cut takes about as long as two steps gain.
MIN_STEPS: Final = 8
# The steps of narrower nets may be so short that the choice between two branches, 1.6 us, counts.
MIN_WIDTH: Final = 128


@dataclass(frozen=True)
class LargeSum:
    """Functions of the sum of an outer value [S, N, H] and a value of the step, the same for every one of S rows.

    ``dims`` are those of the sum. They are stated wherever it is computed: only between values that it knows to be of
    one shape does onnxruntime compute in place.
    """

    whole: Value
    part: Value
    functions: tuple[str, ...]
    dims: tuple[int | ir.SymbolicDim, ...]

    def emit(self, op: Op, rows: Value, height: int | str | ir.SymbolicDim) -> Value:
        """Emit the sum with ``height`` rows of the outer value, and the functions of it."""
        value = op.emit("Add", rows, self.part, shape=[height, *self.dims[1:]])
        for function in self.functions:
            value = op.emit(function, value)
        return value


@dataclass(frozen=True)
class Blocks:
    """The ``count`` rows of an outer value in blocks of ``heights``, numbers or names.

    ``used`` is whether to read the blocks, as a bool of ONNX; None if they are to be read in any case.
    """

    rows: Sequence[Value]
    heights: Sequence[int | str]
    count: Size
    used: Value | None


def find_sum(body: Body, value: Value, inside: set[Value]) -> LargeSum | None:
    """Return the sum that a value of a body is a function of; None if it is not one, or is read elsewhere too."""
    results = {*body.after, *body.stacked}
    functions: list[str] = []
    while (node := value.producer()) is not None and value in inside and value not in results:
        if node.domain or len(value.uses()) != 1:
            return None
        if node.op_type == "Add":
            return _sum(node, inside, tuple(reversed(functions)))
        operand = node.inputs[0]
        if node.op_type not in PLAIN_ACTIVATIONS or operand is None:
            return None
        functions.append(node.op_type)
        value = operand
    return None


def _sum(node: ir.Node, inside: set[Value], functions: tuple[str, ...]) -> LargeSum | None:
    for whole, part in (node.inputs, node.inputs[::-1]):
        if whole is None or part is None or whole in inside or part not in inside:
            continue
        shape, other, dims = whole.shape, part.shape, node.outputs[0].shape
        if shape is None or other is None or dims is None or len(shape) != 3 or len(dims) != 3:
            return None
        width = shape[-1]
        is_wide = isinstance(width, int) and width >= MIN_WIDTH and other[-1:] == (width,)
        same_for_rows = len(other) < 3 or (len(other) == 3 and other[0] == 1)
        return LargeSum(whole, part, functions, tuple(dims)) if is_wide and same_for_rows else None
    return None


def emit_blocks(op: Op, body: Body, found: LargeSum) -> Blocks | None:
    """Cut the outer value of a sum in front of the loop, if that saves time; None if it is known not to."""
    rows = size(op, found.whole, 0)
    limits: list[tuple[Size, int]] = [
        (rows, BLOCKS),
        (product(op, sizes(op, found.whole)), MIN_ELEMENTS),
        (size(op, body.sequences[0], 0), MIN_STEPS),
    ]
    if any(isinstance(number, int) and number < limit for number, limit in limits):
        return None
    used: Value | None = None
    for number, limit in limits:
        if not isinstance(number, int):
            enough = op.emit("GreaterOrEqual", squeeze(op, number, [0]), op.const(limit, np.int64))
            used = enough if used is None else op.emit("And", used, enough)
    if used is None:
        cut: Sequence[Value] = _cut(op, found.whole, rows)
    else:
        cut = branch(
            op,
            used,
            lambda inside: _cut(inside, found.whole, rows),
            lambda inside: _cut_none(inside, found.whole),
        )
    return Blocks(cut, _heights(found.whole, rows), rows, used)


def _heights(whole: Value, rows: Size) -> list[int | str]:
    if isinstance(rows, int):
        height = rows // BLOCKS
        return [*[height] * (BLOCKS - 1), rows - height * (BLOCKS - 1)]
    return [*[f"{whole.name}_block"] * (BLOCKS - 1), f"{whole.name}_last_block"]


def _cut(op: Op, whole: Value, rows: Size) -> list[Value]:
    """Cut blocks of equally many rows; what is left over is part of the last one."""
    height = quotient(op, rows, BLOCKS)
    bounds = [0, *(product(op, [height, number]) for number in range(1, BLOCKS)), END]
    limits = [op.const([bound], np.int64) if isinstance(bound, int) else bound for bound in bounds]
    axis = op.const([0], np.int64)
    return [op.emit("Slice", whole, start, end, axis) for start, end in pairwise(limits)]


def _cut_none(op: Op, whole: Value) -> Sequence[Value]:
    """Cut blocks without rows."""
    return op.emit("Split", slice_axis(op, whole, 0, 0, 0), op.const([0] * BLOCKS, np.int64), axis=0, outputs=BLOCKS)
