"""ONNX models imported with Caffe2's operators alone: what real Caffe2 computes of them, and what onnxruntime does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from conformance.oracle import OracleRun, run_oracle
from onnx import parser

from caffe2_backend.importer import to_netdef
from caffe2_backend.runtime.sessions.onnx_session import OnnxSession

Feeds = dict[str, Any]


class Comparison:
    """Models with their inputs, all to be run in one process of real Caffe2."""

    def __init__(self) -> None:
        self.runs: list[OracleRun] = []
        self.expected: list[tuple[str, list[Any]]] = []

    def __call__(
        self, inputs: str, outputs: str, body: str, feeds: list[Feeds], *, head: str = "", domain: str = ""
    ) -> None:
        """Add a model of one body, whose one net is to give for every feed what onnxruntime gives."""
        more = f', "{domain}": {1 if domain == "com.microsoft" else 3}' if domain else ""
        text = f'<ir_version: 10, opset_import: ["": 21{more}]> g ({inputs}) => ({outputs}) {head} {{ {body} }}'
        model = parser.parse_model(text)
        net = to_netdef(model)
        session = OnnxSession(model.SerializeToString())
        for feed in feeds:
            self.runs.append(OracleRun(net.predict_net, feed, net.init_net, list(net.predict_net.external_output)))
            self.expected.append((f"{body} of {feed}", session.run_values(feed)))

    def check(self) -> None:
        """Run all, and compare."""
        for run, result, (what, values) in zip(self.runs, run_oracle(self.runs), self.expected, strict=True):
            assert result.error == "", what
            for name, expected in zip(run.outputs or (), values, strict=True):
                actual = result.outputs[name]
                assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), what
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6, err_msg=what)


@contextmanager
def comparison() -> Iterator[Comparison]:
    """Add models by calling what this gives; they are run and compared in the end."""
    made = Comparison()
    yield made
    made.check()
