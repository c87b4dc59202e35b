"""Operators whose outputs equal their inputs (copies, aliases, barriers), and tests for emptiness."""

from __future__ import annotations

from functools import reduce

import numpy as np

from caffe2_frontend.lowering.family import Family
from caffe2_frontend.lowering.op import Op, Value

family = Family("copy")


@family.converts(
    "Copy", "CopyCPUToGPU", "CopyGPUToCPU", "CopyFromCPUInput", "CopyOnDeviceLike", "EnsureCPUOutput", "EnsureDense",
    "NegateGradient", "StopGradient",
)  # fmt: skip
def identity(op: Op) -> Value:
    """Copy | CopyCPUToGPU | CopyGPUToCPU | CopyFromCPUInput | CopyOnDeviceLike(X) -> Y.

    Likewise EnsureCPUOutput and EnsureDense; and StopGradient and NegateGradient, which affect gradients only.
    """
    return op.input(0)


@family.converts("Alias", "AliasWithName")
def alias(op: Op) -> Value:
    """Alias | AliasWithName(X; name, is_backward) -> Y."""
    op.args.ignore("name", "is_backward")
    return op.input(0)


@family.converts("AsyncNetBarrier", "DataCouple")
def barrier(op: Op) -> tuple[Value, ...]:
    """AsyncNetBarrier | DataCouple(X0, X1, ...) -> Y0, Y1, ...

    They order the execution only. Trailing operands may lack an output.
    """
    return op.inputs[: op.output_count]


@family.converts("NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce")
def collective(op: Op) -> Value:
    """NCCLAllGather | NCCLAllreduce | NCCLBroadcast | NCCLReduce(X; root) -> X.

    Of one GPU: Caffe2 then returns without any communication, and leaves the blob, which it holds in place, as it is.
    """
    op.args.ignore("root")
    count = len(op.view.inputs)
    if count != 1:
        op.unsupported(f"the operator communicates between {count} GPUs", "convert the net of one GPU")
    return op.input(0)


@family.converts("UnsafeCoalesce")
def coalesce(op: Op) -> tuple[Value, ...]:
    """UnsafeCoalesce(X0, X1, ...) -> X0, X1, ..., shared.

    The last output holds the elements of all operands, one operand after another.
    """
    flat = [op.emit("Reshape", x, op.const([-1], np.int64)) for x in op.inputs]
    return *op.inputs, op.emit("Concat", *flat, axis=0)


@family.converts("IsEmpty")
def is_empty(op: Op) -> Value:
    """IsEmpty(X) -> is_empty."""
    return op.emit("Equal", op.emit("Size", op.input(0)), op.const(0, np.int64))


@family.converts("HasElements")
def has_elements(op: Op) -> Value:
    """HasElements(X0, X1, ...) -> has_elements: whether any operand has elements."""
    counts = [op.emit("Size", x) for x in op.inputs]
    return op.emit("Greater", reduce(lambda a, b: op.emit("Add", a, b), counts), op.const(0, np.int64))


@family.converts("Print")
def show(op: Op) -> tuple[()]:
    """Print(X; to_file, limit, every_n) -> (). Nothing is emitted."""
    op.args.ignore("to_file", "limit", "every_n")
    return ()
