"""Operators whose outputs equal their inputs (copies, aliases, barriers), and tests for emptiness."""

from __future__ import annotations

import torch

from caffe2_torch.evaluation.family import Family
from caffe2_torch.evaluation.op import Op
from caffe2_torch.evaluation.values import Value

family = Family("copy")


@family.converts(
    "Alias", "AliasWithName", "Copy", "CopyCPUToGPU", "CopyFromCPUInput", "CopyGPUToCPU", "CopyOnDeviceLike",
    "EnsureCPUOutput", "EnsureDense",
)  # fmt: skip
def identity(op: Op) -> Value:
    op.args.ignore("name", "is_backward")
    return op.values[0]


@family.converts("StopGradient")
def stop_gradient(op: Op) -> Value:
    return op.tensor(0).detach()


@family.converts("NegateGradient")
def negate_gradient(op: Op) -> Value:
    x = op.tensor(0)
    return 2 * x.detach() - x if x.requires_grad else x


@family.converts("AsyncNetBarrier", "DataCouple")
def barrier(op: Op) -> tuple[Value, ...]:
    return op.values[: op.output_count]


@family.converts("NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce")
def collective(op: Op) -> Value:
    op.args.ignore("root")
    if op.count != 1:
        op.refuse(f"the operator communicates between {op.count} GPUs")
    return op.values[0]


@family.converts("UnsafeCoalesce")
def coalesce(op: Op) -> tuple[Value, ...]:
    return *op.values, torch.cat([x.reshape(-1) for x in op.tensors])


@family.converts("IsEmpty")
def is_empty(op: Op) -> Value:
    return torch.tensor(op.tensor(0).numel() == 0)


@family.converts("HasElements")
def has_elements(op: Op) -> Value:
    return torch.tensor(any(x.numel() for x in op.tensors))


@family.converts("Print")
def show(op: Op) -> tuple[()]:
    op.args.ignore("to_file", "limit", "every_n")
    return ()
