"""The faster form of what a loop keeps for gradients: scan outputs of the Loop, of which a gradient takes one row.

It serves a loop of the outermost net whose body is one Do, if the kept blobs have the same shape in every iteration.
The depth of the stack is then the number of iterations that the gradient has still to undo. Measured with onnxruntime:
sequences take 1.2 times as long for small tensors, and 3 times as long after 1,000 iterations, as each insertion
copies the list of elements; for large tensors they are faster, since scan outputs are copied twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import onnx_ir as ir

from caffe2_bridge.diagnostics import BridgeError
from caffe2_frontend.lowering.context import KeptRows
from caffe2_frontend.lowering.op import Op, Value
from caffe2_frontend.lowering.scope import Scope

# Elements of all blobs of an iteration from which on sequences are faster.
_MAX_ELEMENTS = 4_096


class NoFixedRowsError(BridgeError):
    """A loop cannot stack what it keeps: sequences must hold it.

    Operators of the body raise it, and the conversion of the loop catches it: the lowering passes it on.
    """


def keep_rows(op: Op, stack: str, body: Scope) -> None:
    """Note the values of the blobs of a body that gradients read, in the current iteration.

    Raises NoFixedRowsError where one is missing, or is a stack.
    """
    rows = op.lowering.kept_rows[stack]
    for blob in sorted(op.lowering.reads.kept.get(stack, ())):
        value = None if body.is_opaque(blob) else body.find(blob)
        if value is None:
            raise NoFixedRowsError
        rows[blob] = KeptRows(value, constant=True)


def rows_on_top(op: Op, stack: str, depth: Value) -> dict[str, Value]:
    """Emit the values that the kept blobs had in the last of ``depth`` iterations."""
    index: Value | None = None
    found = {}
    for blob, rows in op.lowering.kept_rows[stack].items():
        value = rows.value
        if not rows.constant:
            index = op.emit("Sub", depth, op.const(1, np.int64), shape=[]) if index is None else index
            value = op.emit("Gather", value, index, axis=0)
        found[blob] = value
    return found


def changing_rows(op: Op, stacks: Collection[str], inside: Op, states: Collection[Value]) -> list[tuple[str, str]]:
    """Return the stack and the blob of each value that differs from iteration to iteration, which the loop stacks.

    Raises NoFixedRowsError where shapes are not fixed, or the values are so large that sequences are faster.
    """
    made = {value for node in inside.scope.nodes for value in node.outputs} | set(states)
    changing = [
        (stack, blob) for stack in stacks for blob, rows in op.lowering.kept_rows[stack].items() if rows.value in made
    ]
    elements = 0
    for stack, blob in changing:
        shape = op.lowering.kept_rows[stack][blob].value.shape
        if shape is None or not all(_is_fixed(op, dim) for dim in shape):
            raise NoFixedRowsError
        elements += math.prod([dim for dim in shape if isinstance(dim, int)])
    if elements > _MAX_ELEMENTS:
        raise NoFixedRowsError
    return changing


def _is_fixed(op: Op, dim: int | ir.SymbolicDim) -> bool:
    """Whether a dim is known, or that of a model input."""
    return isinstance(dim, int) or dim.value in op.scope.sizes
