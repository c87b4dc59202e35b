"""What a stack of workspaces keeps for gradients: its depth, and of each blob that they read an ONNX sequence.

A Do pushes a workspace, and its gradient pops one, so that values are read in the reverse order of the runs that left
them. As gradients run in reverse order altogether, the values of one blob of all stacks of a name make one sequence,
also where loops are nested: it is created before the first operator with bodies, outside of all of them, and branches
and loops carry it like a blob. The depth tells the gradient of a loop how many of the last values are its own. It is a
value of the scope that has the stack; an outer workspace keeps it in place of an inner stack.

Where shapes are fixed, a loop keeps its values in a faster form (:mod:`.kept_rows`).

Sequences are blobs of a scope, of names that no net has.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from caffe2_bridge.control import Do
from caffe2_bridge.diagnostics import BridgeError
from caffe2_frontend.emit.subgraphs import common_shape
from caffe2_frontend.lowering.family import Converter
from caffe2_frontend.lowering.op import Op, Outputs, Value
from caffe2_frontend.lowering.scope import Scope
from caffe2_frontend.ops.control_flow.kept_rows import keep_rows, rows_on_top


class UnknownKindError(BridgeError):
    """A sequence was created with another element type than its values have; the outermost operator starts anew."""

    def __init__(self, stack: str, blob: str) -> None:
        super().__init__(stack, blob)
        self.stack, self.blob = stack, blob


def with_sequences(convert: Converter) -> Converter:
    """Decorate the converter of an operator with bodies: the sequences exist before the outermost one."""

    @functools.wraps(convert)
    def converted(op: Op) -> Outputs:
        if not op.scope.outermost or not op.lowering.reads.kept:
            return convert(op)
        for stack, blobs in op.lowering.reads.kept.items():
            for blob in sorted(blobs):
                if not op.scope.is_known(sequence_name(stack, blob)):
                    _create_sequence(op, stack, blob)
        while True:
            nodes, blobs_before = len(op.scope.nodes), dict(op.scope.blobs)
            try:
                return convert(op)
            except UnknownKindError as error:
                del op.scope.nodes[nodes:]
                op.scope.blobs.clear()
                op.scope.blobs.update(blobs_before)
                _create_sequence(op, error.stack, error.blob)

    return converted


def _create_sequence(op: Op, stack: str, blob: str) -> None:
    kind = ir.DataType.INT64 if blob in op.lowering.reads.kept else ir.DataType.FLOAT
    dtype, _ = op.lowering.kept_kinds.setdefault((stack, blob), (kind, None))
    _bind(op, sequence_name(stack, blob), op.emit("SequenceEmpty", reserved={"dtype": int(dtype)}), dtype)


def _bind(op: Op, name: str, sequence: Value, dtype: ir.DataType) -> None:
    sequence.type, sequence.shape = ir.SequenceType(ir.TensorType(dtype)), None
    op.scope.bind(name, sequence)


def depth_name(stack: str) -> str:
    """Return the name of the number of workspaces on a stack."""
    return f"[{stack}] depth"


def sequence_name(stack: str, blob: str) -> str:
    """Return the name of the sequence of the values of a blob."""
    return f"[{stack}]/{blob}"


def carried_names(op: Op, control: Do) -> Iterator[str]:
    """Yield the names that a Do changes, those that its net changes excluded."""
    kept = op.lowering.reads.kept.get(control.stack)
    if kept is not None:
        yield depth_name(control.stack)
        if control.stack not in op.lowering.kept_rows:
            yield from (sequence_name(control.stack, blob) for blob in sorted(kept))


def is_depth(name: str) -> bool:
    """Whether this is the name of a number of workspaces."""
    return name.startswith("[") and name.endswith("] depth")


def is_sequence(name: str) -> bool:
    """Whether this is the name of a sequence."""
    return name.startswith("[") and "]/" in name


def create_stack(op: Op, stack: str) -> None:
    """Set the depth of a new stack."""
    if stack in op.lowering.reads.kept:
        op.scope.bind(depth_name(stack), op.const(0, np.int64))


def enter(op: Op, body: Scope) -> None:
    """Let the scope of a body that sees nothing of the outer scope see all sequences."""
    for name in _all_sequences(op):
        value = op.scope.find(name)
        if value is not None:
            body.blobs[name] = value


def leave(op: Op, body: Scope) -> None:
    """Hand on the sequences that a body has changed."""
    for name in _all_sequences(op):
        value = body.blobs.get(name)
        if value is not None and value is not op.scope.find(name):
            op.scope.bind(name, value)


def _all_sequences(op: Op) -> Iterator[str]:
    for stack, blobs in op.lowering.reads.kept.items():
        yield from (sequence_name(stack, blob) for blob in blobs)


def push(op: Op, stack: str, body: Scope) -> None:
    """Keep the blobs of a body that gradients read, as another workspace of the stack.

    Raises UnknownKindError where the element type of a blob is not that of its sequence.
    """
    if stack in op.lowering.kept_rows:
        keep_rows(op, stack, body)
        _change_depth(op, stack, 1)
        return
    for blob in sorted(op.lowering.reads.kept.get(stack, ())):
        value = body.find(depth_name(blob)) if body.is_opaque(blob) else body.find(blob)
        name = sequence_name(stack, blob)
        expected, shape = op.lowering.kept_kinds[stack, blob]
        if value is None:  # a branch that is never taken would have written it: nothing reads it, but it is removed
            value = op.const(np.zeros(0), expected.numpy())
        else:
            dtype = op.dtype(value)
            known = value.shape if shape is None else common_shape(shape, value.shape)
            op.lowering.kept_kinds[stack, blob] = dtype, known
            if dtype != expected:
                raise UnknownKindError(stack, blob)
        _bind(op, name, op.emit("SequenceInsert", _sequence(op, name), value), expected)
    _change_depth(op, stack, 1)


def restore(op: Op, stack: str, body: Scope) -> None:
    """Bind the kept blobs of the workspace on top of the stack in the scope of a gradient."""
    if stack in op.lowering.kept_rows:
        body.blobs.update(rows_on_top(op, stack, _depth(op, stack)))
        return
    for blob in sorted(op.lowering.reads.kept.get(stack, ())):
        dtype, shape = op.lowering.kept_kinds[stack, blob]
        sequence = _sequence(op, sequence_name(stack, blob))
        value = op.emit("SequenceAt", sequence, op.const(-1, np.int64), dtype=dtype, shape=shape)
        if blob in op.lowering.reads.kept:
            body.bind_object(blob, None)
            body.blobs[depth_name(blob)] = value
        else:
            body.blobs[blob] = value


def pop(op: Op, stack: str) -> None:
    """Remove the workspace on top of the stack."""
    kept = () if stack in op.lowering.kept_rows else op.lowering.reads.kept.get(stack, ())
    for blob in sorted(kept):
        name = sequence_name(stack, blob)
        dtype, _ = op.lowering.kept_kinds[stack, blob]
        _bind(op, name, op.emit("SequenceErase", _sequence(op, name), op.const(-1, np.int64)), dtype)
    _change_depth(op, stack, -1)


def _change_depth(op: Op, stack: str, by: int) -> None:
    if stack in op.lowering.reads.kept:
        depth = op.emit("Add", _depth(op, stack), op.const(by, np.int64), shape=[])
        op.scope.bind(depth_name(stack), depth)


def _depth(op: Op, stack: str) -> Value:
    depth = op.scope.find(depth_name(stack))
    if depth is None:
        op.unsupported(f"no operator of the net creates the stack of workspaces {stack!r}", code="undefined-blob")
    return depth


def _sequence(op: Op, name: str) -> Value:
    """Return the current sequence."""
    value = op.scope.find(name)
    if value is None:
        op.unsupported(f"{name!r} is read before a Do leaves it", code="undefined-blob")
    return value
