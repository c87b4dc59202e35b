"""Converters and importers of a user's own, whose faults are not this project's."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.diagnostics.internal import VARIABLE
from caffe2_frontend.interop.operator_base import UnsupportedError

OpT = TypeVar("OpT")
_HINT: Final = "--debug shows the traceback"


def guarded(function: Callable[[OpT], Any], value_type: type) -> Callable[[OpT], Any]:
    """Return a function whose exceptions, and results that are not of ``value_type``, refuse the operator.

    In debug mode exceptions pass.
    """
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def convert(op: OpT) -> Any:
        try:
            outputs = function(op)
        except BridgeError:
            raise
        except Exception as error:
            if os.environ.get(VARIABLE):
                raise
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            reason = f"{name} failed in line {line}: {type(error).__name__}: {error}"
            raise UnsupportedError(reason, _HINT, "plugin") from error
        values = outputs if isinstance(outputs, tuple) else (outputs,)
        wrong = next((value for value in values if value is not None and not isinstance(value, value_type)), None)
        if wrong is not None or outputs is None:
            reason = f"{name} returned {type(wrong).__name__}, and not the values of the outputs"
            raise UnsupportedError(reason, "return what emit returned, or a tuple of such", "plugin")
        return outputs

    return convert
