"""What real Caffe2 is asked to run, and what it answers; where its python is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from conformance.corpus import Array, Quantization, text_array

ORACLE_WORKER: Final = Path(__file__).with_name("worker.py")


class OracleError(RuntimeError):
    """Real Caffe2 is not installed, or its process died."""


@dataclass(frozen=True)
class OracleRun:
    """One net to run in an empty workspace: ``init_net``, then the inputs, then ``net``.

    ``outputs`` are the blobs to fetch, all that the net writes where it is None. Inputs of dtype object are string
    tensors; those in ``quantized``, name to (scale, zero point), are Int8 tensors. ``times`` asks for so many more runs
    with the clock on.
    """

    net: NetDef = field(repr=False)
    inputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    init_net: NetDef | None = field(default=None, repr=False)
    outputs: Sequence[str] | None = None
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    times: int = 0


@dataclass(frozen=True)
class OracleResult:
    """What real Caffe2 computed, or its ``error``. ``opaque`` names outputs that are no tensors."""

    outputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    opaque: tuple[str, ...] = ()
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    seconds: tuple[float, ...] = ()
    error: str = ""


def find_oracle() -> Path | None:
    """Return the python with real Caffe2: $CAFFE2_PYTHON, else the one that scripts/oracle installs; None if absent."""
    named = os.environ.get("CAFFE2_PYTHON")
    if named:
        return Path(named)
    folder = os.environ.get("CAFFE2_ORACLE_DIR")
    python = (Path(folder) if folder else Path.home() / ".cache" / "caffe2-oracle") / "bin" / "python"
    return python if python.is_file() else None


def required_oracle() -> Path:
    """Return the python that has real Caffe2. Raises OracleError where it is not installed."""
    python = find_oracle()
    if python is None:
        raise OracleError("real Caffe2 is not installed; scripts/oracle installs it")
    return python


def oracle_packages() -> Path:
    """Return the folder of its Python files. Raises OracleError where it is not installed."""
    (folder,) = required_oracle().parents[1].glob("lib/python3*/site-packages")
    return folder


def oracle_environment(threads: int) -> dict[str, str]:
    """Return the environment of a process with real Caffe2."""
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONPATH": ""}


def results_of(arrays: dict[str, Array]) -> list[OracleResult]:
    """Return the results in a response of the worker."""
    answers = json.loads(arrays["meta"].tobytes())
    return [_result(answer, arrays, index) for index, answer in enumerate(answers)]


def strings_of(side: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Return the string tensors among arrays, in the form that JSON carries: ``in/NAME`` to [shape, values]."""
    return {
        f"{side}/{name}": [list(array.shape), array.ravel().tolist()]
        for name, array in arrays.items()
        if array.dtype == object
    }


def request_arrays(runs: Sequence[OracleRun]) -> dict[str, Any]:
    """Return a request to the worker: the runs."""
    meta = []
    arrays: dict[str, Any] = {}
    for index, run in enumerate(runs):
        meta.append(
            {
                "inputs": list(run.inputs),
                "outputs": None if run.outputs is None else list(run.outputs),
                "int8": run.quantized,
                "strings": strings_of("in", run.inputs),
                "init": run.init_net is not None,
                "times": run.times,
            }
        )
        arrays[f"{index}/net"] = np.frombuffer(run.net.SerializeToString(), np.uint8)
        if run.init_net is not None:
            arrays[f"{index}/init"] = np.frombuffer(run.init_net.SerializeToString(), np.uint8)
        arrays.update((f"{index}/in/{name}", array) for name, array in run.inputs.items() if array.dtype != object)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    return arrays


def _result(answer: dict[str, Any], arrays: Mapping[str, Array], index: int) -> OracleResult:
    if "error" in answer:
        return OracleResult(error=answer["error"])
    strings = answer["strings"]
    return OracleResult(
        outputs={
            name: text_array(*strings[f"out/{name}"]) if f"out/{name}" in strings else arrays[f"{index}/out/{name}"]
            for name in answer["outputs"]
        },
        opaque=tuple(answer["opaque"]),
        quantized={name: (scale, zero) for name, (scale, zero) in answer["int8"].items()},
        seconds=tuple(answer["seconds"]),
    )
