"""Do operators that run in the workspace of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conformance.recording import operator
from support.exports import run

from caffe2_bridge.diagnostics import ConversionError
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend import to_onnx

CREATE = operator("CreateScope", [], ["w"])


def do(ops: Sequence[OperatorDef], inputs: Sequence[str], outputs: Sequence[str], *, reuse: bool) -> OperatorDef:
    """Return a Do with inner blobs of the same names; the net of the operator lists no external blobs."""
    names = list(dict.fromkeys([*inputs, *outputs]))
    places = [[*inputs, *outputs].index(name) for name in names]
    arguments: dict[str, Any] = {"net": NetDef(name="inner", op=ops), "inner_blobs": names, "outer_blobs_idx": places}
    return operator("Do", [*inputs, "w"], [*outputs, "w"], **arguments, reuse_workspace=int(reuse))


def copy(source: str, target: str) -> OperatorDef:
    return operator("Copy", [source], [target])


def results(*ops: OperatorDef) -> list[float]:
    net = NetDef(name="n", op=[CREATE, *ops], external_input=["x"], external_output=["y"])
    model = to_onnx(net, inputs={"x": ("float32", (1,))}, outputs=["y"])
    return [float(value[0]) for value in run(model, {"x": np.array([3], np.float32)})]


KEEP = do([copy("x", "local")], ["x"], [], reuse=False)
DOUBLE = do([operator("Add", ["local", "local"], ["local"])], [], [], reuse=True)
READ = do([copy("local", "y")], [], ["y"], reuse=True)


def test_the_blobs_that_a_new_workspace_keeps() -> None:
    assert results(KEEP, READ) == [3]
    assert results(KEEP, DOUBLE, DOUBLE, READ) == [12]


def test_the_last_workspace_is_used_again() -> None:
    assert results(KEEP, DOUBLE, KEEP, READ) == [3]


def test_a_new_workspace_has_none_of_these_blobs() -> None:
    other = do([copy("x", "other")], ["x"], [], reuse=False)
    with pytest.raises(ConversionError, match="'local', which no earlier operator writes"):
        results(KEEP, other, READ)


def test_within_a_loop() -> None:
    count = [operator("Add", ["i", "one"], ["i"]), operator("LT", ["i", "n"], ["go"])]
    fills = [
        operator("ConstantFill", [], [name], shape=[1], value=float(value))
        for name, value in {"i": 0, "one": 1, "n": 3}.items()
    ]
    body = NetDef(name="body", op=[KEEP, DOUBLE, READ, copy("y", "x"), *count])
    loop = operator("While", ["go", "x", "w"], ["x", "w"], loop_net=body)
    assert results(*fills, operator("LT", ["i", "n"], ["go"]), copy("x", "y"), loop, copy("x", "y")) == [24]


def test_a_wrong_position_is_what_is_reported() -> None:
    wrong = do([copy("x", "y")], ["x"], ["y"], reuse=False)
    (positions,) = (arg for arg in wrong.arg if arg.name == "outer_blobs_idx")
    positions.ints[1] = 2
    with pytest.raises(ConversionError, match="'outer_blobs_idx' holds 2, but there are 2 outer blobs"):
        results(wrong)
