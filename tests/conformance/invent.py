"""What a net lacks to be run, made up: weights and inputs that real Caffe2 takes, the same ones every time."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from caffe2_bridge.proto.caffe2_pb2 import NetDef
from conformance.corpus import Array, Quantization
from conformance.oracle import OracleError, find_oracle, strings_of

_WORKER: Final = Path(__file__).with_name("invent_worker.py")


@dataclass(frozen=True)
class Request:
    """A net, and what is known of its inputs.

    Attributes:
        net: the net.
        inputs: the inputs that are given.
        quantized: which of them are Int8 tensors.
        described: of other inputs, the element type and, where it is known, the rank.
        rows: how many rows the weights of that name have; others have ``width``.
        scales: what weights of that name are multiplied with.
        width: channels and features where nothing asks for a number of them.
        seed: the seed of the random numbers.
    """

    net: NetDef = field(repr=False)
    inputs: Mapping[str, Array] = field(default_factory=dict, repr=False)
    quantized: Mapping[str, Quantization] = field(default_factory=dict)
    described: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    width: int = 16
    seed: int = 1


@dataclass(frozen=True)
class Invented:
    """Inputs for a whole run; ``error`` is what Caffe2 said where it could not run the net operator by operator.

    ``missing`` are the types of the operators that Caffe2 does not have; what they write is among the inputs.
    """

    inputs: Mapping[str, Array] = field(repr=False)
    quantized: Mapping[str, Quantization]
    missing: tuple[str, ...]
    error: str


def invent(request: Request) -> Invented:
    """Make up what the net's operators read and nobody gives. Raises OracleError where Caffe2 is absent."""
    python = find_oracle()
    if python is None:
        raise OracleError("real Caffe2 is not installed; scripts/oracle installs it")
    meta = {
        "inputs": list(request.inputs),
        "int8": dict(request.quantized),
        "strings": strings_of("in", request.inputs),
        "described": dict(request.described),
        "rows": dict(request.rows),
        "scales": dict(request.scales),
        "width": request.width,
        "seed": request.seed,
    }
    arrays: dict[str, Any] = {f"in/{name}": array for name, array in request.inputs.items() if array.dtype != object}
    arrays["net"] = np.frombuffer(request.net.SerializeToString(), np.uint8)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": ""}
    with tempfile.TemporaryDirectory() as folder:
        question, reply = Path(folder, "request.npz"), Path(folder, "response.npz")
        np.savez(question, **arrays)
        done = subprocess.run(  # noqa: S603 - the python that the user installed Caffe2 in
            [python, _WORKER, question, reply],
            env=environment,
            cwd=folder,  # some operators write files
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            tail = " ".join(done.stderr.splitlines()[-3:])
            return Invented(request.inputs, request.quantized, (), f"real Caffe2 ended with {done.returncode}: {tail}")
        with np.load(reply, allow_pickle=False) as archive:
            made = dict(archive)
    answer = json.loads(made["meta"].tobytes())
    inputs = {name: request.inputs[name] if name in request.inputs else made[f"in/{name}"] for name in answer["inputs"]}
    quantized = {name: (float(scale), int(zero)) for name, (scale, zero) in answer["int8"].items()}
    return Invented(inputs, quantized, tuple(answer["missing"]), answer["error"])
