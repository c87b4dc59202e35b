"""How far a model in reduced precision is from the exact export of the same net."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from caffe2_backend.admission import admit_file
from caffe2_backend.runtime.sessions.session import Session
from caffe2_bridge.diagnostics.log import muted
from caffe2_bridge.model import Model
from caffe2_bridge.storage import AnyPath
from caffe2_frontend import ExportOptions, convert, save_onnx
from caffe2_frontend.interop.files.serialize import to_proto
from caffe2_validation.forms import Forms
from caffe2_validation.inputs.generate import generate


@dataclass(frozen=True)
class PrecisionDifference:
    """The largest difference of one output over all generated inputs.

    Attributes:
        output: the name.
        largest: the largest absolute difference, NaN where only one of the two is NaN; 0 for outputs without elements.
        magnitude: the largest finite absolute value of the exact output.
        cases: on how many generated inputs.
    """

    output: str
    largest: float
    magnitude: float
    cases: int

    def __str__(self) -> str:
        inputs = f"{self.cases} generated input{'s' if self.cases != 1 else ''}"
        return f"{self.output}: largest difference {self.largest:.3g} of values up to {self.magnitude:.3g}, on {inputs}"


@muted()  # the export of the exact model repeats the diagnostics of the other
def measure_precision(
    model: Model, options: ExportOptions, converted: ir.Model, path: AnyPath
) -> list[PrecisionDifference]:
    """Run the exact export and the converted model on generated inputs, and compare their outputs.

    Args:
        model: the net.
        options: those that ``converted`` was exported with.
        converted: the model in reduced precision.
        path: the file that it was written to.

    Raises:
        RunError: no inputs are found with which the net runs, weights are missing, or onnxruntime is not installed.
    """
    # Half precision leaves training out, which would be automatic without it: both models have the same outputs.
    training = False if options.fp16 else options.training
    exact = convert(model, options=replace(options, fp16=False, int8="exact", training=training))
    cases = generate(Forms(to_proto(exact))).cases
    dtypes = {str(value.name): value.dtype for value in converted.graph.inputs}
    largest: dict[str, float] = {}
    magnitudes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        save_onnx(exact, Path(folder, "exact.onnx"))
        admitted = admit_file(path)
        sessions = Session(str(Path(folder, "exact.onnx"))), Session(admitted.path)
        for case in cases:
            expected = sessions[0].run(case.inputs)
            found = sessions[1].run(_cast(case.inputs, dtypes))
            for name, array in expected.items():
                off, magnitude = _compare(array, found[name])
                largest[name] = max(largest.get(name, 0.0), off)
                magnitudes[name] = max(magnitudes.get(name, 0.0), magnitude)
    return [PrecisionDifference(name, off, magnitudes[name], len(cases)) for name, off in largest.items()]


def _cast(inputs: Mapping[str, Any], dtypes: Mapping[str, ir.DataType | None]) -> dict[str, Any]:
    """Return the inputs, float32 ones as float16 where the model has them so."""
    return {
        name: array.astype(np.float16) if dtypes.get(name) == ir.DataType.FLOAT16 else array
        for name, array in inputs.items()
    }


def _compare(expected: Any, found: Any) -> tuple[float, float]:
    """Return the largest difference of two arrays and the largest magnitude of the first; infinite if shapes differ."""
    if not isinstance(expected, np.ndarray) or expected.dtype.kind not in "fiub":
        return 0.0, 0.0
    if expected.shape != found.shape:
        return float("inf"), 0.0
    a, b = (np.asarray(array, np.float64) for array in (expected, found))
    finite = np.abs(a[np.isfinite(a)])
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return (float(off.max()) if off.size else 0.0), (float(finite.max()) if finite.size else 0.0)
