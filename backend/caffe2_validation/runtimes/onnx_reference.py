"""The reference evaluator of the onnx package: slow, and made of NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx

from caffe2_backend.runtime import Int8Tensor
from caffe2_bridge.diagnostics import RunError
from caffe2_frontend.interop.input_defaults import inputs_with_defaults
from caffe2_validation.runtimes.base import AnyModel, Form, Value, onnx_model, output_array
from caffe2_validation.runtimes.time_budget import within

# The evaluator has no error of its own: what NumPy raises in the middle of an operator comes through.
_FAILURES: Final = (
    RuntimeError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError, NameError,
    OSError, MemoryError,
)  # fmt: skip


class OnnxReference:
    """onnx.reference.

    Args:
        seconds: what a run may take. Much of the evaluator is loops in Python, which may take hours.
    """

    name = "onnx-reference"
    form: Form = "onnx"

    def __init__(self, seconds: float = 20.0) -> None:
        self._seconds = seconds

    def missing(self) -> str:
        """See Runtime."""
        return ""

    def versions(self) -> dict[str, str]:
        """See Runtime."""
        return {"onnx": onnx.__version__, "numpy": np.__version__}

    def load(self, model: AnyModel) -> _Loaded:
        """See Runtime."""
        from onnx.reference import ReferenceEvaluator

        from caffe2_validation.runtimes.reference.corrected_reference import OPERATORS
        from caffe2_validation.runtimes.reference.ragged_reference import GRU, LSTM, RNN

        proto = onnx_model(model)
        try:
            return _Loaded(ReferenceEvaluator(proto, new_ops=[LSTM, GRU, RNN, *OPERATORS]), proto, self._seconds)
        except _FAILURES as error:
            raise RunError(f"onnx-reference cannot load the model: {error}") from error


class _Loaded:
    def __init__(self, evaluator: Any, model: onnx.ModelProto, seconds: float) -> None:
        self._evaluator = evaluator
        self._seconds = seconds
        self._optional = inputs_with_defaults(model)
        self._inputs = [value.name for value in model.graph.input if value.name not in self._optional]
        self._outputs = [value.name for value in model.graph.output]

    def run(self, inputs: Mapping[str, Value], outputs: Sequence[str] | None = None) -> dict[str, Value]:
        missing = [name for name in self._inputs if name not in inputs]
        if missing:
            raise RunError(f"input {', '.join(map(repr, missing))} is not given")
        values = {name: inputs[name] for name in (*self._inputs, *self._optional) if name in inputs}
        plain = {name: v.data if isinstance(v, Int8Tensor) else v for name, v in values.items()}
        wanted = self._outputs if outputs is None else list(outputs)
        try:
            found = within(self._seconds, lambda: self._evaluate(wanted, plain))
        except RunError:
            raise
        except _FAILURES as error:
            raise RunError(f"onnx-reference: {type(error).__name__}: {error}") from error
        return {name: output_array(name, value) for name, value in zip(wanted, found, strict=True)}

    def _evaluate(self, wanted: list[str], inputs: dict[str, Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            found: list[Any] = self._evaluator.run(wanted, inputs)
        return found
