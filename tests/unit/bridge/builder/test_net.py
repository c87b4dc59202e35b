"""Nets under construction: names, scopes, parameters, arguments."""

from __future__ import annotations

import numpy as np
import pytest

import caffe2_bridge as c2
from caffe2_bridge.builder import (
    Blob,
    BuildError,
    Net,
    constant,
    fc,
    gaussian,
    given,
    layer_norm,
    make_argument,
    uniform,
)
from caffe2_bridge.proto.caffe2_pb2 import (
    PROTO_CPU,
    PROTO_CUDA,
    Argument,
    DeviceOption,
    NetDef,
    OperatorDef,
    TensorProto,
)


def text(op: OperatorDef) -> str:
    return f"{op.type}: {' '.join(op.input)} -> {' '.join(op.output)}"


def test_an_operator_by_method_and_by_name() -> None:
    net = Net("n")
    y = net.FC(["x", "w", "b"], "y", axis=2)
    same = Net("n")
    assert same.op("FC", ["x", "w", "b"], "y", axis=2) == y == "y"
    assert net.proto == same.proto
    assert net.proto.op[0] == OperatorDef(
        type="FC", input=["x", "w", "b"], output=["y"], arg=[Argument(name="axis", i=2)]
    )
    assert list(net.proto.external_input) == ["x", "w", "b"]


def test_outputs_are_named_as_asked() -> None:
    net = Net("n")
    assert net.Relu("x") == "n/Relu"
    assert net.Relu("x") == "n/Relu_2"
    assert net.TopK("x", 2, k=1) == ("n/TopK:0", "n/TopK:1")
    assert net.TopK("x", 2, k=1) == ("n/TopK_2:0", "n/TopK_2:1")
    assert net.Split("x", ["a"]) == "a"  # one output, as in Caffe2
    assert net.Split("x", 1) == "n/Split:0"
    assert net.op("ZeroGradient", "x", ()) is None
    assert [len(op.output) for op in net.proto.op] == [1, 1, 2, 2, 1, 1, 0]


def test_operator_types_that_caffe2_does_not_have() -> None:
    net = Net("n")
    with pytest.raises(
        AttributeError, match=r"Sofmax is not a registered operator\. Did you mean: \[Softmax,HSoftmax\]"
    ):
        net.Sofmax("x", "y")
    with pytest.raises(AttributeError, match=r"Did you mean: \[\]\? net\.op\('MyOwnOperator', \.\.\.\)"):
        net.MyOwnOperator  # noqa: B018 - the access is what is tested
    assert net.op("MyOwnOperator", "x") == "n/MyOwnOperator"
    assert not hasattr(net, "softmax")
    assert not hasattr(net, "__array__")
    assert net.Conv_ENGINE_NNPACK(["x", "w"], "c") == "c"


def test_names_of_caffe2s_nets() -> None:
    net = Net("n")
    assert net.Name() == "n"
    assert net.AddExternalInput("x") == "x"
    assert net.AddExternalInput("y", "z") == ["y", "z"]
    net.AddExternalOutput(net.Relu("x", ["r"]))
    assert net.Proto() is net.proto
    assert list(net.Proto().external_input) == ["x", "y", "z"]
    assert list(net.Proto().external_output) == ["r"]


def test_engine_name_and_device() -> None:
    net = Net("n")
    gpu = DeviceOption(device_type=PROTO_CUDA, device_id=1)
    with net.device_scope(gpu):
        net.op("Relu", "x", "y", engine="CUDNN", op_name="first")
        net.param("w", (2,))
        net.op("Relu", "x", "z", device_option=DeviceOption(device_type=PROTO_CPU))
    net.op("Relu", "x", "v")
    first, second, third = net.proto.op
    assert (first.engine, first.name, first.device_option) == ("CUDNN", "first", gpu)
    assert second.device_option.device_type == PROTO_CPU
    assert not third.HasField("device_option")
    assert net.init_net.op[0].device_option.device_id == 1


def test_scopes_name_what_is_text_and_leave_blobs() -> None:
    net = Net("n")
    outer = net.Relu("x", "y")
    with net.name_scope("a"):
        inner = net.Add([outer, "x"], "z")
        with net.name_scope("b"), net.name_scope(""):
            deep = net.Relu(inner, outer + "_2")
            fc(net, deep, "out", 3, 2)
        assert net.defines("z")
        assert not net.defines("y")
    assert [text(op) for op in net.proto.op] == [
        "Relu: x -> y",
        "Add: y a/x -> a/z",
        "Relu: a/z -> y_2",
        "FC: y_2 a/b/out_w a/b/out_b -> a/b/out",
    ]
    assert isinstance(deep, Blob)
    assert list(net.init_net.external_output) == ["a/b/out_w", "a/b/out_b"]


def test_a_scope_ends_with_its_block() -> None:
    net = Net("n")
    with pytest.raises(KeyError), net.name_scope("a"), net.device_scope(DeviceOption()):
        raise KeyError
    assert net.Relu("x", "y") == "y"
    assert net.device is None


def test_scopes_that_share_parameters() -> None:
    net = Net("n")
    for step in range(2):
        with net.name_scope("cell"), net.name_scope(f"step_{step}", shares_parameters=True):
            fc(net, net.blob("x"), "y", 3, 2)
    assert text(net.proto.op[1]) == "FC: cell/step_1/x cell/y_w cell/y_b -> cell/step_1/y"
    assert len(net.init_net.op) == 2


def test_a_parameter_has_one_shape() -> None:
    net = Net("n")
    assert net.param("w", (2, 3)) == net.param("w", np.array([2, 3])) == "w"
    with pytest.raises(BuildError, match=r"parameter 'w' exists with shape \[2, 3\], not \[3, 2\]"):
        net.param("w", (3, 2))


def test_children_share_scopes_and_parameters() -> None:
    net = Net("n")
    net.add_external_input("x")
    with net.name_scope("a"):
        body = net.child("body")
        fc(body, Blob("x"), "y", 2, 2)
        assert net.param("y_w", (2, 2)) == "a/y_w"
    assert text(body.proto.op[0]) == "FC: x a/y_w a/y_b -> a/y"
    assert body.init_net is net.init_net
    assert not net.proto.op
    assert set(body.lexical_scope) == {"x", "a/y_w", "a/y_b", "a/y"}


def test_external_inputs_and_outputs_stand_once() -> None:
    net = Net("n")
    net.add_external_input("x", "x")
    net.Relu("x", "y")
    assert net.add_external_output("y", "y") == ("y", "y")
    assert net.add_external_output("y") == ("y",)
    assert list(net.proto.external_input) == ["x"]
    assert list(net.proto.external_output) == ["y"]
    with pytest.raises(BuildError, match="'y' cannot be an external input of net 'n', which writes it"):
        net.add_external_input("y")


def test_new_names() -> None:
    net = Net("n")
    net.Relu("x", "y")
    assert net.unique_name("y") == "y_auto_0"
    assert net.unique_name("y") == "y_auto_1"
    assert net.unique_name("z") == "z"
    assert net.next_name("recurrent") == "n/recurrent"
    assert net.next_name("recurrent") == "n/recurrent_2"


def test_names_are_found_in_linear_time() -> None:
    net = Net("n")
    blob = net.Relu("x")
    for _ in range(20_000):  # seconds, where every name that is taken is tried again
        blob = net.Relu(blob)
    assert blob == "n/Relu_20001"


def test_whole_operators_of_another_net() -> None:
    other, net = Net("other"), Net("n")
    other.Relu("x", "y")
    with net.name_scope("a"):
        net.extend(other.proto.op)
    assert net.proto.op[0] == other.proto.op[0]
    assert net.proto.op[0] is not other.proto.op[0]
    assert list(net.proto.external_input) == ["x"]


def test_parameters_by_initializer() -> None:
    net = Net("n", seed=1)
    values = np.arange(6, dtype=np.int64).reshape(2, 3)
    net.param("xavier", (200, 300))
    net.param("normal", (4000,), gaussian(2.0, mean=5.0))
    net.param("uniform", (4000,), uniform(1, 3))
    net.param("seven", (3,), constant(7, TensorProto.INT32))
    net.param("given", (2, 3), given(values))
    net.param("floats", (2,), given([0.1, 0.2]))
    model = net.model()
    params = model.params
    bound = np.sqrt(3 / 300)
    assert np.abs(params["xavier"]).max() <= bound
    assert np.abs(params["xavier"]).max() > 0.99 * bound
    assert params["normal"].mean() == pytest.approx(5, abs=0.2)
    assert params["normal"].std() == pytest.approx(2, abs=0.2)
    assert (params["uniform"].min(), params["uniform"].max()) == pytest.approx((1, 3), abs=0.05)
    assert params["seven"].tolist() == [7, 7, 7]
    assert params["seven"].dtype == np.int32
    np.testing.assert_array_equal(params["given"], values)
    assert params["floats"].dtype == np.float32
    drawn = c2.Model.of(net.proto, net.init_net).params
    for name in params:
        np.testing.assert_array_equal(params[name], drawn[name])
    assert {op.type for op in model.init_net.op} == {"GivenTensorFill", "GivenTensorIntFill", "GivenTensorInt64Fill"}


def test_a_model_is_the_net_at_that_time() -> None:
    net = Net("n")
    fc(net, "x", "y", 2, 2)
    model = net.model()
    fc(net, "y", "z", 2, 2)
    assert [op.output[0] for op in model.predict_net.op] == ["y"]
    assert set(model.params) == {"y_w", "y_b"}


def test_a_seed_belongs_to_a_name_not_to_a_place() -> None:
    first, second = Net("n", seed=5), Net("m", seed=5)
    first.param("a", (4,))
    first.param("b", (4,))
    second.param("b", (4,))
    np.testing.assert_array_equal(first.model().params["b"], second.model().params["b"])


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.zeros((2, 2), np.float32), r"parameter 'w' must have shape \[3\], not \[2, 2\]"),
        (np.zeros(3, np.complex64), "complex64, an element type that Caffe2 does not have"),
    ],
)
def test_values_that_do_not_fit(values: np.ndarray, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        Net("n").param("w", (3,), given(values))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, Argument(name="a", i=1)),
        (np.int64(3), Argument(name="a", i=3)),
        (0.5, Argument(name="a", f=0.5)),
        (np.float32(0.5), Argument(name="a", f=0.5)),
        ("text", Argument(name="a", s=b"text")),
        (b"\xff", Argument(name="a", s=b"\xff")),
        (NetDef(name="n"), Argument(name="a", n=NetDef(name="n"))),
        (TensorProto(dims=[1]), Argument(name="a", t=TensorProto(dims=[1]))),
        ([1, True], Argument(name="a", ints=[1, 1])),
        (range(2), Argument(name="a", ints=[0, 1])),
        (np.array([[1.5, 2.5]], np.float32), Argument(name="a", floats=[1.5, 2.5])),
        (["x", b"y"], Argument(name="a", strings=[b"x", b"y"])),
        ([NetDef()], Argument(name="a", nets=[NetDef()])),
        ([], Argument(name="a")),
    ],
)
def test_arguments(value: object, expected: Argument) -> None:
    assert make_argument("a", value) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([1, 2.5], "argument 'a' must be a list of values of one type, not of float and int"),
        (object(), "argument 'a' must be a number, text, bytes, net, tensor or a list of these, not object"),
    ],
)
def test_values_that_are_no_argument(value: object, reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        make_argument("a", value)


def test_an_argument_that_is_none_is_left_out() -> None:
    net = Net("n")
    net.Relu("x", "y", order=None, alpha=1)
    assert [arg.name for arg in net.proto.op[0].arg] == ["alpha"]


def test_layer_norm_gives_mean_and_deviation() -> None:
    net = Net("n")
    assert layer_norm(net, "x", "y", 4) == ("y", "y_mean", "y_std")
    assert text(net.proto.op[0]) == "LayerNorm: x y_scale y_bias -> y y_mean y_std"
