"""Copies between host and GPU inside char_rnn, ResNet-50 and the golden recurrent nets."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from conformance.corpus import find_cases, read_case
from support.models.resnet import resnet50
from support.paths import CHAR_RNN, MODELS

from caffe2_backend.runtime.placement.graph import place_graph
from caffe2_backend.runtime.sessions.onnxruntime_library import failures
from caffe2_bridge import load
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from caffe2_frontend import to_onnx
from gpu_suite.copies import count_copies, host_operators, profile
from gpu_suite.results import record

Arrays = Mapping[str, np.ndarray[Any, Any]]


def main() -> int:
    """Record the copies of each net; 1 if one copies, and none is predicted: the page says what is left to do."""
    good = True
    refused: tuple[type[Exception], ...] = (BridgeError, *failures())
    for name, model, inputs in _nets():
        try:
            described = {key: (str(value.dtype), [None] * value.ndim) for key, value in inputs.items()}
            converted = to_onnx(model, inputs=described, recurrent="gpu")
            predicted = place_graph(ir.from_proto(converted)).copies
            with tempfile.TemporaryDirectory() as folder:
                events = profile(converted.SerializeToString(), inputs, Path(folder))
        except refused as error:
            good &= record(f"copies in {name}", "failed", reason=str(error))
            continue
        copies = count_copies(events)
        fits = bool(predicted) or not copies
        good &= record(f"copies in {name}", "passed" if fits else "failed", reason="" if fits else "none is predicted",
               to_host=copies["MemcpyToHost"], from_host=copies["MemcpyFromHost"],
               on_host=dict(host_operators(events)))  # fmt: skip
    return 0 if good else 1


def _nets() -> Iterator[tuple[str, Model, Arrays]]:
    random = np.random.default_rng(0)
    yield "char_rnn", load(CHAR_RNN), {
        "input_blob": random.random((20, 2, 94), np.float32),
        "seq_lengths": np.array([20, 13], np.int32),
        "hidden_init": random.random((1, 2, 192), np.float32),
        "cell_init": random.random((1, 2, 192), np.float32),
    }  # fmt: skip
    net, init = resnet50()
    yield "resnet50", Model.of(net, init), {"data": random.standard_normal((1, 3, 224, 224)).astype(np.float32)}
    for folder in sorted(path.parent for path in MODELS.glob("*/model.json")):
        case = read_case(find_cases(folder)[0])
        yield folder.name, Model.of(case.net, case.init_net), case.inputs


if __name__ == "__main__":
    sys.exit(main())
