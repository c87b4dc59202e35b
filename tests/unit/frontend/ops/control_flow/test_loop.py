"""While loops whose bodies write blobs that nothing writes before, and that are read after the loop."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from conformance.recording import operator
from support.exports import run

from caffe2_backend import Workspace
from caffe2_bridge import ConversionError, RunError
from caffe2_bridge.proto.caffe2_pb2 import NetDef
from caffe2_frontend import to_onnx

BODY = NetDef(
    op=[
        operator("Add", ["x", "one"], ["x"]),
        operator("Mul", ["x", "x"], ["square"]),
        operator("LT", ["x", "limit"], ["go"]),
    ]
)
NET = NetDef(
    name="net",
    op=[
        operator("GivenTensorFill", [], ["one"], shape=[1], values=[1.0]),
        operator("GivenTensorFill", [], ["limit"], shape=[1], values=[4.0]),
        operator("LT", ["x", "limit"], ["go"]),
        operator("While", ["go", "x"], ["x"], loop_net=BODY),
        operator("Add", ["square", "one"], ["y"]),
    ],
    external_input=["x"],
    external_output=["y"],
)


@pytest.mark.parametrize("sizes", [(1,), (None,)])
def test_the_value_of_the_last_iteration_is_read(sizes: tuple[int | None]) -> None:
    model = to_onnx(NET, inputs={"x": ("float32", sizes)})
    for start in (1.0, 2.5, 3.0):
        (y,) = run(model, {"x": np.array([start], np.float32)})
        assert y.tolist() == [(start + np.ceil(4 - start)) ** 2 + 1]


def test_a_loop_that_does_not_run_leaves_no_value() -> None:
    model = to_onnx(NET, inputs={"x": ("float32", [1])})
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument, match="out of"):
        run(model, {"x": np.array([4], np.float32)})


def test_programs_fail_where_the_blob_is_read_first() -> None:
    workspace = Workspace()
    workspace.create_net(NET)
    workspace.feed("x", np.array([4], np.float32))
    with pytest.raises(RunError, match=r"(?s)net\[4\] Add: .*\(inputs: square, one\)"):
        workspace.run_net("net")
    workspace.feed("x", np.array([2], np.float32))
    for _ in range(2):  # the second time the loop does not run, and the blob is what it was
        workspace.run_net("net")
        np.testing.assert_array_equal(np.asarray(workspace.fetch("y")), [17])


def test_a_refusal_of_a_rank_that_varies_says_what_runs_the_net() -> None:
    body = NetDef(op=[operator("ExpandDims", ["x"], ["x"], dims=[0]), operator("LT", ["i", "limit"], ["go"])])
    net = NetDef(name="net", op=[operator("While", ["go", "x"], ["x"], loop_net=body)], external_output=["x"])
    net.external_input.extend(["go", "x", "i", "limit"])
    with pytest.raises(ConversionError, match=r"the rank of 'x.*' depends on .* iteration.*\(a Workspace runs such"):
        to_onnx(net, inputs={"x": ("float32", [2]), "i": ("float32", [1]), "limit": ("float32", [1])})
