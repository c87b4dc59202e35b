"""The suite through the backend (``prepare``: ONNX to NetDef to ONNX), run on onnxruntime.

Inputs are given by position, as the interface of ``onnx.backend`` prescribes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from caffe2_backend.onnx_backend import prepare
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession
from caffe2_bridge.diagnostics import BridgeError
from onnx_suite.cases import Case, difference

Run = Callable[[Sequence[Any]], Iterable[Any]]


def run_original(cases: Iterable[Case]) -> dict[str, str]:
    """Return for each case why onnxruntime fails on the original model, empty where it passes."""
    return {case.name: _outcome(case, _original) for case in cases}


def run_backend(cases: Iterable[Case]) -> dict[str, str]:
    """Return for each case why the backend fails, empty where it passes."""
    return {case.name: _outcome(case, _prepared) for case in cases}


def _original(case: Case) -> Run:
    session = OnnxSession(case.model.SerializeToString(), threads=1)
    constants = {tensor.name for tensor in case.model.graph.initializer}
    names = [value.name for value in case.model.graph.input if value.name not in constants]
    return lambda inputs: session.run_values(dict(zip(names, inputs, strict=False)))


def _prepared(case: Case) -> Run:
    return prepare(case.model).run


def _outcome(case: Case, make: Callable[[Case], Run]) -> str:
    try:
        run = make(case)
        for inputs, expected in case.data:
            actual = list(run(inputs))
            wrong = difference(expected, actual, case.rtol, case.atol)
            if wrong:
                return wrong
    except (BridgeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
