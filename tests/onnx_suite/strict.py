"""The suite through ``to_netdef`` with Caffe2's operators alone, run in real Caffe2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from conformance.oracle import OracleError, OracleResult, OracleRun, run_oracle

from caffe2_backend.importer import to_netdef
from caffe2_backend.lowering.types import STORED_AS
from caffe2_bridge.diagnostics import BridgeError
from onnx_suite.cases import Case, difference
from onnx_suite.variants import input_names

_BATCH = 40


def run_strict(cases: Iterable[Case]) -> dict[str, str]:
    """Return for each case why it fails, empty where it passes."""
    outcome: dict[str, str] = {}
    runs: list[tuple[Case, list[OracleRun]]] = []
    for case in cases:
        try:
            runs.append((case, _runs(case)))
        except (BridgeError, RuntimeError) as error:
            outcome[case.name] = f"import: {str(error).splitlines()[0]}"
    for start in range(0, len(runs), _BATCH):
        batch = runs[start : start + _BATCH]
        for (case, _), results in zip(batch, answers([run for _, run in batch]), strict=True):
            outcome[case.name] = _judged(case, results)
    return outcome


def _runs(case: Case) -> list[OracleRun]:
    model = to_netdef(case.model)
    made = []
    for inputs, _ in case.data:
        feed = {name: _fed(value) for name, value in zip(input_names(case.model), inputs, strict=False)}
        wanted = list(dict.fromkeys(model.predict_net.external_output))
        made.append(OracleRun(model.predict_net, feed, model.init_net, wanted))
    return made


def _fed(value: Any) -> Any:
    if not isinstance(value, np.ndarray | np.generic):
        raise BridgeError(f"Caffe2 has no {type(value).__name__}")  # a sequence or an optional value
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        return np.array([str(v).encode().decode("latin-1") for v in array.reshape(-1)], object).reshape(array.shape)
    if _stored_as(array.dtype) is None and array.dtype.kind in "Vc":
        raise BridgeError(f"Caffe2 has no tensors of {array.dtype.name}")
    return as_bits(array)


def answers(batch: Sequence[Sequence[OracleRun]]) -> list[list[OracleResult]]:
    """Return the answers; where real Caffe2's process dies, the batch is halved until the one at fault is alone."""
    flat = [run for runs in batch for run in runs]
    try:
        answers = iter(run_oracle(flat))
    except OracleError as error:
        if len(batch) == 1:
            return [[OracleResult(error=str(error)) for _ in batch[0]]]
        half = len(batch) // 2
        return [*answers(batch[:half]), *answers(batch[half:])]
    return [[next(answers) for _ in runs] for runs in batch]


def _judged(case: Case, results: Sequence[OracleResult]) -> str:
    names = [value.name for value in case.model.graph.output]
    for (_, expected), result in zip(case.data, results, strict=True):
        if result.error:
            return f"run: {result.error.splitlines()[0]}"
        for name, value in zip(names, expected, strict=True):
            if name not in result.outputs:
                return f"output {name!r} is no tensor"
            wrong = difference(value, _fetched(result.outputs[name], value), case.rtol, case.atol)
            if wrong:
                return f"output {name!r}: {wrong}"
    return ""


def as_bits(array: Any) -> Any:
    """Return an input as the import stores it: the bits of numbers of a type that Caffe2 has no tensors of."""
    stored = _stored_as(array.dtype)
    return array if stored is None else array.view(stored)


def as_numbers(value: Any, expected: Any) -> Any:
    """Return an output whose elements are the bits of numbers of the type that is expected, as those numbers."""
    dtype = np.asarray(expected).dtype
    return value.view(dtype) if value.dtype == _stored_as(dtype) else value


def _stored_as(dtype: Any) -> Any:
    """Return the type of the bits in which the import stores a type without tensors in Caffe2; None for other types."""
    if dtype.kind in "OSU":
        return None
    stored = STORED_AS.get(ir.DataType.from_numpy(dtype))
    return None if stored is None else stored.numpy()


def _fetched(value: Any, expected: Any) -> Any:
    """Return an output; the oracle gives the bytes of strings as the characters of those numbers.

    Numbers that are stored as their bits are read as the type that is expected.
    """
    if value.dtype != object:
        return as_numbers(value, expected)
    return np.array([str(v).encode("latin-1").decode() for v in value.reshape(-1)], object).reshape(value.shape)
