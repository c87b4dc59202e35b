"""Operators that only fail, or check a blob: Fail, ThrowException, LogFatal, Assert, EnforceFinite, NanCheck."""

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


@family.runs("EnforceFinite")
def enforce_finite(op: HostOp) -> None:
    """EnforceFinite(X) -> (): fail unless all elements of a tensor of float are finite."""
    _require_finite(op)


@family.runs("NanCheck")
def nan_check(op: HostOp) -> None:
    """NanCheck(X, ...) -> X: fail unless all elements of a tensor of float are finite."""
    _require_finite(op)
    op.set(0, op.tensor(0))


def _require_finite(op: HostOp) -> None:
    array = op.array(0)
    if array.dtype.kind != "f":
        raise op.error(f"blob {op.inputs[0]!r} must hold floats, not {array.dtype.name}")
    finite = np.isfinite(array).reshape(-1)
    if not finite.all():
        index = int(np.argmin(finite))
        raise op.error(f"element {index} of blob {op.inputs[0]!r} must be finite, not {array.reshape(-1)[index]}")
