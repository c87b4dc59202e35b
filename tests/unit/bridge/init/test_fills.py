from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from caffe2_bridge.diagnostics import BridgeError
from caffe2_bridge.init.fill_nets import fill_net
from caffe2_bridge.init.init_net import InitNet, read_init_net
from caffe2_bridge.netdef.parameters import Parameter
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto


def argument(name: str, value: Any) -> Argument:
    if isinstance(value, bool | int):
        return Argument(name=name, i=int(value))
    if isinstance(value, float):
        return Argument(name=name, f=value)
    if isinstance(value, bytes):
        return Argument(name=name, s=value)
    field = {int: "ints", float: "floats", bytes: "strings"}[type(value[0]) if value else int]
    return Argument(name=name, **{field: value})


def read(kind: str, inputs: dict[str, Any] | None = None, **args: Any) -> InitNet:
    """Return a net of one fill over known blobs, read from bytes; the protobuf must read the same."""
    known = {}
    for name, value in (inputs or {}).items():
        array = np.array(value)
        known[name] = Parameter(name, array.dtype, array.shape, array.copy)
    op = OperatorDef(type=kind, input=known, output=["Y"], arg=[argument(n, v) for n, v in args.items()])
    net = NetDef(op=[op])
    init = read_init_net(net.SerializeToString(), known)
    same = read_init_net(net, known)
    assert init.findings == same.findings
    if not init.findings:
        np.testing.assert_array_equal(init.parameters["Y"].load(), same.parameters["Y"].load())
    return init


def fill(kind: str, inputs: dict[str, Any] | None = None, **args: Any) -> Parameter:
    init = read(kind, inputs, **args)
    assert init.findings == ()
    parameter = init.parameters["Y"]
    values = parameter.load()
    assert (values.dtype, values.shape) == (parameter.dtype, parameter.shape)
    return parameter


def refusal(kind: str, inputs: dict[str, Any] | None = None, **args: Any) -> str:
    init = read(kind, inputs, **args)
    assert [finding.code for finding in init.findings] == ["bad-fill"]
    assert init.findings[0].location.op_type == kind
    assert "Y" not in init.parameters
    return init.findings[0].reason


SHAPE = {"shape": [2]}


# Every expected value here is what real Caffe2 gives for the same operator.
@pytest.mark.parametrize(
    ("kind", "args", "dtype", "values"),
    [
        ("GivenTensorFill", {**SHAPE, "values": [1.0, 2.5]}, "float32", [1.0, 2.5]),
        ("GivenTensorFill", {"values": [2.0]}, "float32", 2.0),
        ("GivenTensorFill", {**SHAPE, "values": [2.5, 1.0], "dtype": int(TensorProto.DOUBLE)}, "float64", [2.5, 1.0]),
        ("GivenTensorFill", {**SHAPE, "values": [2.5, 1.0], "dtype": b"double"}, "float64", [2.5, 1.0]),
        ("GivenTensorFill", {**SHAPE, "values": [2, 0], "dtype": int(TensorProto.BOOL)}, "bool", [True, False]),
        ("GivenTensorFp16Fill", {**SHAPE, "values": [1.0, 65504.0]}, "float16", [1.0, 65504.0]),
        ("GivenTensorBoolFill", {**SHAPE, "values": [2, 0]}, "bool", [True, False]),
        ("GivenTensorDoubleFill", {"shape": [1], "values": [0.1]}, "float64", [np.float64(np.float32(0.1))]),
        ("GivenTensorInt16Fill", {**SHAPE, "values": [-1, 2**15 - 1]}, "int16", [-1, 2**15 - 1]),
        ("GivenTensorInt64Fill", {**SHAPE, "values": [-(2**63), 1]}, "int64", [-(2**63), 1]),
        ("GivenTensorIntFill", {"shape": [2, 1], "values": [-3, 4]}, "int32", [[-3], [4]]),
        ("GivenTensorStringFill", {**SHAPE, "values": [b"a", b"\xff"]}, "object", [b"a", b"\xff"]),
        ("GivenTensorByteStringToUInt8Fill", {**SHAPE, "values": [b"a\xff"]}, "uint8", [97, 255]),
        ("ConstantFill", {**SHAPE, "value": 3}, "int64", [3, 3]),
        ("ConstantFill", {**SHAPE}, "float32", [0.0, 0.0]),
        ("ConstantFill", {"value": 2.0}, "float32", 2.0),
        ("ConstantFill", {"shape": [0, 2], "value": 2.0}, "float32", np.zeros((0, 2))),
        ("ConstantFill", {**SHAPE, "value": 2, "dtype": int(TensorProto.BOOL)}, "bool", [True, True]),
        ("ConstantFill", {**SHAPE, "value": 200, "dtype": int(TensorProto.UINT8)}, "uint8", [200, 200]),
        ("ConstantFill", {**SHAPE, "value": -7, "dtype": int(TensorProto.INT8)}, "int8", [-7, -7]),
        ("ConstantFill", {**SHAPE, "value": 7, "dtype": int(TensorProto.UINT16)}, "uint16", [7, 7]),
        ("ConstantFill", {**SHAPE, "value": b"ab", "dtype": int(TensorProto.STRING)}, "object", [b"ab", b"ab"]),
        ("Float16ConstantFill", {**SHAPE, "value": 1.5}, "float16", [1.5, 1.5]),
        ("Int8GivenIntTensorFill", {**SHAPE, "values": [5, -6], "Y_scale": 0.5}, "int32", [5, -6]),
        ("DiagonalFill", {"shape": [5, 2], "value": 1.0}, "float32", [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]),
        ("DiagonalFill", {"shape": [2, 2], "value": 3}, "int64", [[3, 0], [0, 3]]),
        ("RangeFill", {"shape": [2, 2]}, "float32", [[0, 1], [2, 3]]),
    ],
)
def test_values(kind: str, args: dict[str, Any], dtype: str, values: Any) -> None:
    found = fill(kind, **args)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.load(), np.array(values, found.dtype))


def test_diagonal_of_three_dimensions() -> None:
    expected = np.zeros((3, 3, 3), np.float32)
    expected[range(3), range(3), range(3)] = 2.0
    np.testing.assert_array_equal(fill("DiagonalFill", shape=[3, 3, 3], value=2.0).load(), expected)


def test_int8_tensors_carry_their_quantization() -> None:
    found = fill("Int8GivenTensorFill", shape=[2], values=b"a\xff", Y_scale=0.5, Y_zero_point=3)
    assert (found.scale, found.zero_point) == (0.5, 3)
    assert found.load().tolist() == [97, 255]
    plain = fill("Int8GivenTensorFill", shape=[2], values=b"ab")
    assert (plain.scale, plain.zero_point) == (1.0, 0)


def test_shapes_from_inputs() -> None:
    like = {"X": np.zeros((2, 3), np.float32)}
    assert fill("ConstantFill", like, value=3.0).shape == (2, 3)
    assert fill("ConstantFill", like, value=3.0, extra_shape=[4]).shape == (2, 3, 4)
    given = {"X": np.array([4, 1], np.int64)}
    assert fill("ConstantFill", given, value=3.0, input_as_shape=1).shape == (4, 1)
    assert fill("ConstantFill", given, value=3.0, input_as_shape=2, extra_shape=[2]).shape == (4, 1, 2)
    value = {**like, "V": np.array([7.0], np.float32)}
    assert fill("ConstantFill", value, value=3.0).load().tolist() == [[7.0] * 3] * 2
    assert fill("LengthsRangeFill", {"X": np.array([2, 0, 3], np.int32)}).load().tolist() == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "inputs", "args", "reason"),
    [
        ("GivenTensorFill", {}, {"shape": [3], "values": [1.0]}, "has 3 elements, but 'values' has 1 floats"),
        ("GivenTensorFill", {}, {"shape": [1], "values": [2]}, r"has 0 floats \(it has ints\)"),
        ("GivenTensorFill", {}, {"shape": [0]}, "'values' is missing"),
        ("GivenTensorFill", {}, {"shape": 3, "values": [1.0]}, "'shape' must be a list of integers, not an integer"),
        ("GivenTensorFill", {}, {"shape": [1], "values": [1.0], "dtype": 7}, "'dtype' must be one of .*, not INT8"),
        (
            "GivenTensorFill",
            {},
            {"shape": [1], "values": [1.0], "dtype": b"what"},
            "'dtype' must be one of .*, not WHAT",
        ),
        ("GivenTensorIntFill", {}, {"shape": [1], "values": [2**31]}, "2147483648 is out of the range of int32"),
        ("GivenTensorInt16Fill", {}, {"shape": [1], "values": [2**15]}, "is out of the range of int16"),
        ("GivenTensorByteStringToUInt8Fill", {}, {"shape": [3], "values": [b"ab"]}, "3 elements, but 'values' has 2"),
        ("GivenTensorByteStringToUInt8Fill", {}, {"shape": [2], "values": [b"a", b"b"]}, "one string"),
        ("Int8GivenTensorFill", {}, {"shape": [2], "values": [b"ab"]}, "must be a string"),
        ("Int8GivenIntTensorFill", {}, {"shape": [2], "values": [5]}, "has 2 elements"),
        ("ConstantFill", {}, {"shape": [-1]}, "negative"),
        ("ConstantFill", {}, {"shape": [2**40, 2**40]}, "too large for a tensor"),
        ("ConstantFill", {}, {"shape": [1], "value": 200, "dtype": 7}, "200 is out of the range of int8"),
        ("ConstantFill", {}, {"shape": [1], "value": 2, "dtype": 3}, "'dtype' must be one of .*, not BYTE"),
        ("ConstantFill", {}, {"shape": [1], "value": 2, "dtype": 99}, "'dtype' must be one of .*, not 99"),
        ("ConstantFill", {}, {"shape": [1], "value": b"a"}, "must be a float or an integer"),
        ("ConstantFill", {}, {"shape": [1], "value": 3, "dtype": 1}, "'value' must be a float, not an integer"),
        ("ConstantFill", {}, {"shape": [1], "extra_shape": [1]}, "'extra_shape' requires an input"),
        ("ConstantFill", {}, {"shape": [1], "input_as_shape": 1}, "'input_as_shape' requires an input"),
        ("ConstantFill", {"X": [1.0]}, {"shape": [1]}, "both an input and the argument 'shape'"),
        ("ConstantFill", {"X": np.array([1], np.int32)}, {"input_as_shape": 1}, "vector of int64"),
        ("ConstantFill", {"X": [1.0], "V": np.zeros(2, np.float32)}, {"value": 1.0}, "one element of float32"),
        ("DiagonalFill", {}, {"shape": [3]}, "to have a diagonal"),
        ("DiagonalFill", {}, {"shape": [3, 3, 2]}, "to have a diagonal"),
        ("LengthsRangeFill", {"X": np.zeros((1, 2), np.int32)}, {}, "vector of int32"),
        ("LengthsRangeFill", {"X": np.array([-1], np.int32)}, {}, "negative"),
        ("UniformFill", {}, {"shape": [1], "min": 2.0}, r"max \(1.0\) must be greater than min \(2.0\)"),
        ("UniformIntFill", {}, {"shape": [1], "min": 2, "max": 2}, "must be greater"),
        ("UniqueUniformFill", {}, {"shape": [1]}, "'min' is missing"),
        ("UniqueUniformFill", {}, {"shape": [6], "min": 1, "max": 5}, "at least 6 values"),
        ("GaussianFill", {}, {"shape": [1], "std": -1.0}, "negative"),
        ("GaussianFill", {}, {"shape": [1], "std": 1}, "'std' must be a float"),
        ("MSRAFill", {}, {"shape": [3]}, "2 dims"),
        ("XavierFill", {}, {"shape": []}, "1 dims"),
    ],
)
def test_what_caffe2_refuses_is_a_finding(kind: str, inputs: Any, args: dict[str, Any], reason: str) -> None:
    assert re.search(reason, refusal(kind, inputs, **args))


def test_random_fills_are_the_same_every_time_and_follow_their_distribution() -> None:
    shape = [200, 50, 2]
    uniform = fill("UniformFill", shape=shape, min=-1.0, max=3.0)
    values = uniform.load()
    np.testing.assert_array_equal(values, uniform.load())
    assert values.min() >= -1.0
    assert values.max() < 3.0
    assert abs(values.mean() - 1.0) < 0.05
    assert abs(values.std() - 4 / math.sqrt(12)) < 0.05

    gaussian = fill("GaussianFill", shape=shape, mean=5.0, std=2.0).load()
    assert abs(gaussian.mean() - 5.0) < 0.1
    assert abs(gaussian.std() - 2.0) < 0.1
    assert np.all(fill("GaussianFill", shape=[3], mean=1.0, std=0.0).load() == 1.0)

    bound = math.sqrt(3 / 100)  # fan-in: all but the first axis
    xavier = fill("XavierFill", shape=shape).load()
    assert 0.99 * bound < np.abs(xavier).max() <= bound
    msra = fill("MSRAFill", shape=shape).load()  # what Caffe2 calls fan-out: all but the second axis
    assert abs(msra.std() / math.sqrt(2 / 400) - 1) < 0.05

    integers = fill("UniformIntFill", shape=[1000], min=-1, max=1).load()
    assert set(integers.tolist()) == {-1, 0, 1}
    half = fill("Float16UniformFill", shape=[1000], min=1.0, max=2.0).load()
    assert 1.0 <= half.min() < half.max() <= 2.0


def test_bounds_from_inputs() -> None:
    one = np.zeros((2, 3), np.float32)
    found = fill("UniformFill", {"X": one, "a": np.float32([7]), "b": np.float32([8])}).load()
    assert found.shape == (2, 3)
    assert 7 <= found.min() <= found.max() < 8
    assert fill("UniformFill", {"X": one, "a": np.float32([9]), "b": np.float32([8])}).shape == (0, 3)


def test_unique_values_keep_clear_of_those_to_be_avoided() -> None:
    assert sorted(fill("UniqueUniformFill", shape=[5], min=1, max=5).load()) == [1, 2, 3, 4, 5]
    inputs = {"X": np.zeros(3, np.float32), "avoid": np.array([2, 1, 9], np.int32)}
    assert sorted(fill("UniqueUniformFill", inputs, min=1, max=5).load()) == [3, 4, 5]
    assert fill("UniqueUniformFill", shape=[2], min=1, max=5, dtype=int(TensorProto.INT64)).dtype == np.int64


def test_seeds() -> None:
    def gaussian(seed: int | None) -> OperatorDef:
        op = OperatorDef(type="GaussianFill", output=[f"w{seed}"], arg=[argument("shape", [4])])
        if seed is not None:
            op.device_option.random_seed = seed
        return op

    net = NetDef(op=[gaussian(None), gaussian(1), gaussian(2)])
    first, second = read_init_net(net), read_init_net(net)
    values = {name: parameter.load() for name, parameter in first.parameters.items()}
    assert len({array.tobytes() for array in values.values()}) == 3
    for name, parameter in second.parameters.items():
        np.testing.assert_array_equal(parameter.load(), values[name])
    # A seed means the same wherever the operator stands, as in Caffe2; without one, the place tells operators apart.
    moved = read_init_net(NetDef(op=[gaussian(2)])).parameters["w2"].load()
    np.testing.assert_array_equal(moved, values["w2"])
    twice = read_init_net(NetDef(op=[gaussian(None), gaussian(1), gaussian(None)])).parameters["wNone"].load()
    assert not np.array_equal(twice, values["wNone"])


def test_parameters_of_types_without_a_fill_are_refused_by_name() -> None:
    values = np.zeros(2, np.uint32)
    with pytest.raises(BridgeError, match="parameter 'w' is uint32"):
        list(fill_net([Parameter("w", values.dtype, values.shape, lambda: values)], []))
