"""What is known of inputs: what the caller says, and what their use tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from conformance.recording import operator
from support.cells import fills

from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.netdef.views import NetView
from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef
from caffe2_frontend.interop.types import InputSpecError, TensorInfo, onnx_dtype, tensor_info
from caffe2_frontend.passes.describe_inputs import DescribeInputs
from caffe2_frontend.state import Export

FLOAT = ir.DataType.FLOAT


def described(*ops: OperatorDef, given: dict[str, Any] | None = None, init: NetDef | None = None) -> Export:
    read = dict.fromkeys(name for op in ops for name in op.input)
    made = {name for op in ops for name in op.output}
    net = NetDef(name="n", op=ops, external_input=[name for name in read if name not in made])
    told = {name: tensor_info(name, spec) for name, spec in (given or {}).items()}
    state = Export(NetView(net), InitNet() if init is None else read_init_net(init), inputs=told)
    return DescribeInputs()(state)


def test_use_tells_the_rank() -> None:
    state = described(operator("FC", ["x", "w", "b"], ["y"], axis=2))
    assert state.inputs == {
        "x": TensorInfo(FLOAT, ("x_dim_0", "x_dim_1", "x_dim_2")),
        "w": TensorInfo(FLOAT, ("w_dim_0", "w_dim_1")),
        "b": TensorInfo(FLOAT, ("b_dim_0",)),
    }
    assert state.findings == ()


def test_the_caller_goes_before_use() -> None:
    state = described(operator("FC", ["x", "w", "b"], ["y"]), given={"x": (None, [4, "K"]), "w": ("float64", None)})
    assert state.inputs["x"] == TensorInfo(FLOAT, (4, "K"))
    assert state.inputs["w"] == TensorInfo(ir.DataType.DOUBLE, ("w_dim_0", "w_dim_1"))


def test_use_behind_operators_that_change_no_shape_tells_too() -> None:
    chain = [operator("Copy", ["x"], ["a"]), operator("Relu", ["a"], ["b"]), operator("FC", ["b", "w", "c"], ["y"])]
    assert len(described(*chain).inputs["x"].shape or ()) == 2
    split = [operator("Split", ["x"], ["a"]), operator("FC", ["a", "w", "c"], ["y"])]
    assert len(described(*split).inputs["x"].shape or ()) == 2
    flat = [operator("Flatten", ["x"], ["a"]), operator("FC", ["a", "w", "c"], ["y"])]
    assert [finding.code for finding in described(*flat).findings] == ["needs-shape"]


def test_operators_that_write_in_place_are_followed_once_at_each_distance() -> None:
    ops = [operator("Tanh", ["z"], ["z"]) for _ in range(100)]  # 100^7 ways to go from one to the next
    state = described(operator("Copy", ["x"], ["z"]), *ops, operator("FC", ["z", "w", "b"], ["y"]))
    assert state.inputs["x"] == TensorInfo(FLOAT, ("x_dim_0", "x_dim_1"))


def test_use_in_a_body_tells() -> None:
    step = NetDef(op=[operator("LSTMUnit", ["h", "c", "g", "lengths", "timestep"], ["h1", "c1"])])
    loop = operator("RecurrentNetwork", ["x", "h0", "lengths"], ["y"], step_net=step, initial_recurrent_state_ids=[1])
    inputs = described(loop).inputs
    assert inputs["lengths"] == TensorInfo(ir.DataType.INT32, ("lengths_dim_0",))
    assert inputs["x"].shape == ("x_dim_0", "x_dim_1", "x_dim_2")
    assert inputs["h0"].shape == (1, "h0_dim_1", "h0_dim_2")


def test_an_input_of_unknown_rank_is_a_finding_and_float() -> None:
    state = described(operator("Relu", ["x"], ["y"]))
    assert state.inputs == {"x": TensorInfo(FLOAT, None)}
    (finding,) = state.findings
    assert str(finding).startswith(
        "n: error: the rank of input 'x' is unknown [needs-shape] (describe it, such as "
        "--input 'x=float32[N,D]', or inputs={'x': ('float32', ['N', 'D'])}; "
    )


def test_what_the_init_net_makes_is_no_input() -> None:
    init = fills({"w": np.ones((2, 2), np.float32)})
    init.op.append(operator("Softmax", ["w"], ["b"]))
    state = described(operator("FC", ["x", "w", "b"], ["y"]), init=init)
    assert list(state.inputs) == ["x"]
    state = described(operator("FC", ["x", "w", "b"], ["y"]), init=init, given={"b": (None, ["O"])})
    assert list(state.inputs) == ["x", "b"]


def test_a_wrong_argument_tells_nothing_and_is_a_finding() -> None:
    state = described(operator("FC", ["x", "w", "b"], ["y"], axis=0.5))
    assert [f"{f.code} {f.location}" for f in state.findings] == ["needs-shape n", "invalid-argument n[0] FC"]


def test_an_input_that_nobody_reads_is_left_out_unless_described() -> None:
    net = NetDef(name="n", external_input=["x", "label"], op=[operator("FC", ["x", "x", "x"], ["y"])])
    state = DescribeInputs()(Export(NetView(net), InitNet()))
    assert list(state.inputs) == ["x"]
    assert [(f.code, f.severity.value) for f in state.findings] == [("unused-input", "note")]
    state = DescribeInputs()(Export(NetView(net), InitNet(), inputs={"label": TensorInfo(None, (None,))}))
    assert state.inputs["label"] == TensorInfo(FLOAT, ("label_dim_0",))
    assert state.findings == ()


def test_an_input_that_is_an_output_must_be_described() -> None:
    net = NetDef(name="n", external_input=["x"])
    state = DescribeInputs()(Export(NetView(net), InitNet(), outputs=(("x", "x"),)))
    assert [finding.code for finding in state.findings] == ["needs-shape"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float32", FLOAT), ("Float", FLOAT), (1, FLOAT), (ir.DataType.INT8, ir.DataType.INT8),
        (float, ir.DataType.DOUBLE), ("int64", ir.DataType.INT64), ("bool", ir.DataType.BOOL),
        (str, ir.DataType.STRING), ("str", ir.DataType.STRING),
        ("S3", ir.DataType.STRING), (object, ir.DataType.STRING), ("float16", ir.DataType.FLOAT16),
    ],
)  # fmt: skip
def test_element_types(value: Any, expected: ir.DataType) -> None:
    assert onnx_dtype(value) == expected


@pytest.mark.parametrize("value", ["quaternion", 999, [1]])
def test_what_is_no_element_type(value: Any) -> None:
    with pytest.raises(InputSpecError, match="is not an element type"):
        onnx_dtype(value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("float32", "expected"), (("float32",), "expected"), (("float32", [1], 2, 3), "expected"), (3, "expected"),
        (("float32", [-1]), "-1 is not a dim"), (("float32", [1.5]), "1.5 is not a dim"),
        (("float32", [""]), "'' is not a dim"),
    ],
)  # fmt: skip
def test_specs_that_are_none(spec: Any, message: str) -> None:
    with pytest.raises(InputSpecError, match=message):
        tensor_info("x", spec)
