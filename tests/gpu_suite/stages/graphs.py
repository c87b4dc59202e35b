"""Which golden recurrent models, with all sizes fixed, onnxruntime records as CUDA graphs, by its provider's rules."""

from __future__ import annotations

import ctypes
import itertools
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from conformance.corpus import find_cases, read_case
from support.paths import CHAR_RNN, GOLDEN, MODELS

from caffe2_backend import Predictor
from caffe2_backend.runtime import SessionOptions
from caffe2_backend.runtime.sessions.onnxruntime_library import cuda_libraries
from caffe2_bridge import load
from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.model import Model
from gpu_suite.results import record

_uncounted: Final = itertools.count()
Arrays = Mapping[str, np.ndarray[Any, Any]]


def main() -> int:
    """Run each model three times, which records and replays it; 1 if one cannot be recorded."""
    good = True
    for name, model, inputs in _models():
        reason = _refusal(model, inputs)
        good &= record(f"graph of {name}", "failed" if reason else "passed", reason=reason)
    return 0 if good else 1


def _refusal(model: Model, inputs: Arrays) -> str:
    """Return why a model runs without a CUDA graph; empty if it does not."""
    before = _launches()
    predictor = Predictor(model, "cuda:0", options=SessionOptions(cuda_graphs=True))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            for _ in range(3):
                predictor.run(inputs)
        except BridgeError as error:
            return str(error)
    placement = predictor.placement
    if placement is None or placement.on_host:
        return "; ".join(operator.reason for operator in placement.on_host) if placement else "it has device options"
    if not found and _launches() == before:
        return "no graph was launched"
    return "; ".join(str(warning.message) for warning in found)


def _launches() -> int:
    """Return how many CUDA graphs were launched on the emulated CUDA; on a GPU, one more each time."""
    library = ctypes.CDLL(f"libcudart.so.{cuda_libraries().major}")
    try:
        return int(library.emulated_graph_launches())
    except AttributeError:
        return next(_uncounted)


def _models() -> Iterator[tuple[str, Model, Arrays]]:
    random = np.random.default_rng(0)
    yield "char_rnn", load(CHAR_RNN), {
        "input_blob": random.random((20, 2, 94), np.float32),
        "seq_lengths": np.array([20, 13], np.int32),
        "hidden_init": random.random((1, 2, 192), np.float32),
        "cell_init": random.random((1, 2, 192), np.float32),
    }  # fmt: skip
    folders = [path.parent for path in MODELS.glob("*/model.json") if not path.parent.name.startswith("control_")]
    for folder in sorted([*folders, GOLDEN / "recorded" / "models" / "unrolled_lstm"]):
        case = read_case(find_cases(folder)[0])
        yield folder.name, Model.of(case.net, case.init_net), case.inputs


if __name__ == "__main__":
    sys.exit(main())
