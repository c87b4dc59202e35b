"""Diagnostic codes of the placement of operators on devices."""

from __future__ import annotations

from typing import Final

from caffe2_bridge.diagnostics.code import DiagnosticCode

DEVICE_CODES: Final = (
    DiagnosticCode(
        code="device-conflict",
        summary="A blob would have to be on two devices at once.",
        cause="Operators with fixed devices share a blob and no copy is between them, or a body hands on a blob "
        "between them.",
        example="predict_net[3] Relu: error: blob 'x' has conflicting devices: cuda:0 by predict_net[1] FC, but cpu "
        "by what was given [device-conflict]",
        cure="Insert CopyCPUToGPU or CopyGPUToCPU between the operators (`caffe2_bridge.insert_copies` does), or "
        "change the device option of one of them.",
    ),
    DiagnosticCode(
        code="device-mismatch",
        summary="An operator reads a blob from another device than its own.",
        cause="The net has device options, and no copy stands between the operator that writes the blob and the one "
        "that reads it. Real Caffe2 fails, or reads invalid memory.",
        example="predict_net[2] FC: error: the operator runs on cuda:0, but reads 'x', which is on cpu "
        "[device-mismatch] (insert a CopyCPUToGPU before it)",
        cure="Insert the copies: `caffe2_bridge.insert_copies(net, inputs)`, or run with `--device cpu` "
        "(`device='cpu'`).",
    ),
    DiagnosticCode(
        code="no-device",
        summary="The cost model allows an operator on no device.",
        cause="The function `operator(op, device)` of the cost model returns None for the host and for the GPU.",
        example="predict_net[5] Foo: error: the cost model allows this operator on no device [no-device] "
        "(return a cost for the host or for the GPU)",
        cure="Return a cost for at least one device from the cost model.",
    ),
    DiagnosticCode(
        code="status-conflict",
        summary="A blob would have two statuses at once.",
        cause="`propagate_status` follows a status through the net, and two operators (or an operator and the "
        "caller's `known_status`) give different ones to the same blob.",
        example="predict_net[3] Relu: error: blob 'x' has conflicting statuses: a by predict_net[1] FC, but b by what "
        "was given [status-conflict]",
        cure="Correct `known_status`, or the function that updates the status.",
    ),
    DiagnosticCode(
        code="unknown-device",
        summary="The device of a blob cannot be inferred.",
        cause="Neither the caller, nor device options, nor operators that exist on one device only determine it.",
        example="predict_net: error: the device of version 0 of blob 'x' is unknown [unknown-device] "
        "(give it in known_status, or a default with unknown='cpu')",
        cure="Give the device in `known_status`, or a default: `infer_device_type(..., unknown='cpu')`.",
    ),
)
