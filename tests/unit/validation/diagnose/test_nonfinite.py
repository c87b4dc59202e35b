"""The first NaN or infinity of a run.

Modules: nonfinite.
"""

from __future__ import annotations

import numpy as np
from conformance.recording import operator

from caffe2_bridge import Model
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_validation import validate

NET = NetDef(
    name="n",
    op=[operator("Relu", ["x"], ["h"]), operator("Log", ["h"], ["l"]), operator("Negative", ["l"], ["y"])],
    external_input=["x"],
    external_output=["y"],
)


def found_in(x: list[float]) -> list[str]:
    inputs = {"x": np.array(x, np.float32)}
    report = validate(Model.of(NET), inputs, runtimes=("workspace", "onnxruntime-cpu"), find_nan=True)
    return [str(value) for value in report.nonfinite or ()]


def test_the_operator_that_makes_it_is_named() -> None:
    assert found_in([1, -1, 2]) == [
        "n[1] Log writes infinity to 'l'[1]: 1 of 3 elements are not finite (workspace, given)"
    ]


def test_an_input_that_holds_it_comes_first() -> None:
    assert found_in([1, np.nan, np.nan]) == [
        "the inputs hold NaN to 'x'[1]: 2 of 3 elements are not finite (workspace, given)"
    ]


def test_finite_values_give_none_and_it_must_be_asked_for() -> None:
    assert found_in([1, 2, 3]) == []
    report = validate(Model.of(NET), {"x": np.ones(3, np.float32)}, runtimes=("workspace", "onnxruntime-cpu"))
    assert report.nonfinite is None
    assert report.to_dict()["nonfinite"] is None
