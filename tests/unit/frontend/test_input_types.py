"""Element types of inputs that operators tell."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from conformance.recording import operator

from caffe2_bridge.proto.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from caffe2_frontend import describe_inputs, to_onnx


def types(*ops: OperatorDef, init: NetDef | None = None) -> dict[str, str]:
    net = NetDef(op=ops)
    return {name: info.dtype.name for name, info in describe_inputs(net, init).items() if info.dtype is not None}


FILL = operator("ConstantFill", [], ["one"], shape=[1], dtype=TensorProto.INT64)
ARGUMENTS = operator("ArgMax", ["scores"], ["best"], axis=1)


@pytest.mark.parametrize(
    ("ops", "expected"),
    [
        ([FILL, operator("LT", ["one", "x"], ["y"])], {"x": "INT64"}),
        ([FILL, operator("Add", ["x", "one"], ["y"])], {"x": "INT64"}),
        ([operator("Copy", ["x"], ["c"]), FILL, operator("Sub", ["c", "one"], ["y"])], {"x": "INT64"}),
        ([FILL, operator("Concat", ["x", "one"], ["y", "dims"])], {"x": "INT64"}),
        ([ARGUMENTS, operator("EQ", ["best", "x"], ["y"])], {"scores": "FLOAT", "x": "INT64"}),
        ([ARGUMENTS, operator("Gather", ["table", "best"], ["y"])], {"scores": "FLOAT", "table": "FLOAT"}),
        ([FILL, operator("EQ", ["x", "one"], ["y"]), operator("Gather", ["t", "x"], ["z"])],
         {"x": "INT64", "t": "FLOAT"}),
        ([operator("Gather", ["t", "x"], ["z"])], {"x": "INT32", "t": "FLOAT"}),
        ([operator("Shape", ["x"], ["s"]), operator("Gather", ["s", "i"], ["a"]), operator("Mul", ["a", "k"], ["y"])],
         {"x": "FLOAT", "i": "INT32", "k": "INT64"}),
        ([operator("Cast", ["x"], ["c"], to=TensorProto.DOUBLE), operator("Mul", ["c", "k"], ["y"])],
         {"x": "FLOAT", "k": "DOUBLE"}),
        ([operator("Cast", ["x"], ["c"], to="double"), operator("Mul", ["c", "k"], ["y"])],
         {"x": "FLOAT", "k": "FLOAT"}),
        ([FILL, operator("Add", ["x", "one"], ["y"]), ARGUMENTS, operator("Add", ["x", "f"], ["z"])],
         {"x": "INT64", "scores": "FLOAT", "f": "INT64"}),
    ],
)  # fmt: skip
def test_types_that_operators_tell(ops: list[OperatorDef], expected: dict[str, str]) -> None:
    assert types(*ops) == expected


def test_operators_that_differ_tell_nothing() -> None:
    other = operator("ConstantFill", [], ["other"], shape=[1], dtype=TensorProto.INT32)
    ops = [FILL, other, operator("EQ", ["x", "one"], ["y"]), operator("EQ", ["x", "other"], ["z"])]
    assert types(*ops) == {"x": "FLOAT"}


def test_parameters_and_described_inputs_tell_types() -> None:
    init = NetDef(op=[operator("GivenTensorInt64Fill", [], ["w"], shape=[1], values=[3])])
    assert types(operator("Mul", ["x", "w"], ["y"]), init=init) == {"x": "INT64"}
    net = NetDef(op=[operator("Mul", ["x", "k"], ["y"])])
    model = to_onnx(net, inputs={"x": (np.int32, ["N"])})
    assert [value.type.tensor_type.elem_type for value in model.graph.input] == [onnx.TensorProto.INT32] * 2


def test_blobs_of_bodies() -> None:
    """Infer a loop that counts to an input, and appends what it finds to another one."""
    condition = NetDef(name="condition", op=[operator("LT", ["step", "steps"], ["going_on"])])
    body = NetDef(
        name="body",
        op=[
            operator("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            operator("Concat", ["text", "best"], ["longer", "dims"], axis=0),
            operator("Copy", ["longer"], ["text"]),
            operator("Add", ["step", "one"], ["step"]),
        ],
    )
    fills = [operator("ConstantFill", [], [name], shape=[1], dtype=TensorProto.INT32) for name in ("step", "one")]
    loop = operator("While", ["going_on", "step", "one", "steps", "scores", "text"], ["text", "step", "going_on"])
    loop.arg.add(name="cond_net").n.CopyFrom(condition)
    loop.arg.add(name="loop_net").n.CopyFrom(body)
    start = operator("ConstantFill", [], ["going_on"], dtype=TensorProto.BOOL)
    net = NetDef(op=[*fills, start, loop], external_input=["steps", "scores", "text"], external_output=["text"])
    found = {name: info.dtype.name for name, info in describe_inputs(net).items() if info.dtype is not None}
    assert found == {"steps": "INT32", "scores": "FLOAT", "text": "INT64"}
