"""Operators whose only effect is to fail: Fail, ThrowException, ThrowChildThreadException, LogFatal and Assert."""

from __future__ import annotations

import numpy as np

from caffe2_backend.runtime.host.family import HostFamily, HostOp

family = HostFamily("failing")


@family.runs("Fail")
def fail(op: HostOp) -> None:
    """Fail() -> ()."""
    raise op.error("the operator always fails")


@family.runs("ThrowException", "ThrowChildThreadException", "LogFatal")
def throw(op: HostOp) -> None:
    """ThrowException(; message) -> ()."""
    raise op.error(op.args.text("message", default="Exception from ThrowExceptionOp"))


@family.runs("Assert")
def assert_true(op: HostOp) -> None:
    """Assert(X; error_msg) -> (): fail unless all elements of a tensor of bool or integers are true."""
    array = op.array(0)
    if array.dtype.kind not in "biu":
        raise op.error(f"blob {op.inputs[0]!r} must hold booleans or integers, not {array.dtype.name}")
    if not np.all(array):
        message = op.args.text("error_msg", default="")
        raise op.error(f"assertion failed for blob {op.inputs[0]!r}{': ' if message else ''}{message}")
