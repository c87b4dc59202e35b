"""Operators whose outputs are their inputs, and whether those hold anything: copies, aliases, barriers."""

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
    return op.input(0)


@family.converts("Alias", "AliasWithName")
def alias(op: Op) -> Value:
    op.args.ignore("name", "is_backward")
    return op.input(0)


@family.converts("AsyncNetBarrier", "DataCouple")
def together(op: Op) -> tuple[Value, ...]:
    """Operators that order execution only; operands without an output come last."""
    return op.inputs[: op.output_count]


@family.converts("UnsafeCoalesce")
def coalesce(op: Op) -> tuple[Value, ...]:
    """The last output holds the elements of all operands one after another; the others are the operands."""
    flat = [op.emit("Reshape", x, op.const([-1], np.int64)) for x in op.inputs]
    return *op.inputs, op.emit("Concat", *flat, axis=0)


@family.converts("IsEmpty")
def is_empty(op: Op) -> Value:
    return op.emit("Equal", op.emit("Size", op.input(0)), op.const(0, np.int64))


@family.converts("HasElements")
def has_elements(op: Op) -> Value:
    """Whether any of the operands has."""
    counts = [op.emit("Size", x) for x in op.inputs]
    return op.emit("Greater", reduce(lambda a, b: op.emit("Add", a, b), counts), op.const(0, np.int64))


@family.converts("Print")
def show(op: Op) -> tuple[()]:
    """Printing changes no blob."""
    op.args.ignore("to_file", "limit", "every_n")
    return ()
