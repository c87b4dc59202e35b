from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from caffe2_bridge import NetFormatError, wire
from caffe2_bridge.init.init_net import read_init_net
from caffe2_bridge.model import Model, read_init
from caffe2_bridge.proto.caffe2_pb2 import Argument, NetDef, OperatorDef, TensorProto
from caffe2_bridge.wire import write as wire_write

AsInput = Callable[[NetDef], NetDef | bytes]


def given(name: str, values: list[float], shape: list[int] | None = None) -> OperatorDef:
    return OperatorDef(
        type="GivenTensorFill",
        output=[name],
        arg=[
            Argument(name="shape", ints=[len(values)] if shape is None else shape),
            Argument(name="values", floats=values),
        ],
    )


def op(kind: str, inputs: str, outputs: str, *args: Argument) -> OperatorDef:
    return OperatorDef(type=kind, input=inputs.split(), output=outputs.split(), arg=args)


@pytest.fixture(params=["protobuf", "bytes"])
def as_input(request: pytest.FixtureRequest) -> AsInput:
    return (lambda net: net) if request.param == "protobuf" else NetDef.SerializeToString


def test_constants_and_what_is_left(as_input: AsInput) -> None:
    net = NetDef(
        name="start",
        op=[
            given("w", [1.0, 2.0]),
            op("Copy", "w", "w2"),
            op("FloatToHalf", "w2", "h"),
            op("HalfToFloat", "h", "back"),
            op("Cast", "w", "i", Argument(name="to", i=TensorProto.INT32)),
            op("Load", "", "big", Argument(name="db", s=b"somewhere")),
            op("Scale", "w", "s", Argument(name="scale", f=2.0)),
        ],
    )
    init = read_init_net(as_input(net))
    assert init.findings == ()
    assert {name: (str(p.dtype), p.load().tolist()) for name, p in init.parameters.items()} == {
        "w": ("float32", [1.0, 2.0]),
        "w2": ("float32", [1.0, 2.0]),
        "h": ("float16", [1.0, 2.0]),
        "back": ("float32", [1.0, 2.0]),
        "i": ("int32", [1, 2]),
    }
    assert [(view.index, view.type) for view in init.rest] == [(5, "Load"), (6, "Scale")]
    assert init.rest[1].proto == net.op[6]
    assert init.net == net


def test_the_last_fill_of_a_name_counts(as_input: AsInput) -> None:
    init = read_init_net(as_input(NetDef(op=[given("w", [1.0]), op("Copy", "w", "v"), given("w", [2.0])])))
    assert init.parameters["w"].load() == [2.0]
    assert init.parameters["v"].load() == [1.0]


def test_fills_stay_in_order_around_computations(as_input: AsInput) -> None:
    # Taken out in front, the second fill of w would change what Scale reads, the fill of s would be lost.
    net = NetDef(
        op=[given("w", [1.0]), op("Scale", "w", "s"), given("w", [2.0]), given("s", [3.0]), op("Copy", "s", "t")]
    )
    init = read_init_net(as_input(net))
    assert list(init.parameters) == ["w"]
    assert init.parameters["w"].load() == [1.0]
    assert [view.index for view in init.rest] == [1, 2, 3, 4]
    assert init.rest[1].proto == net.op[2]
    assert init.findings == ()


def test_all_findings_in_net_order_and_none_for_what_follows_from_them(as_input: AsInput) -> None:
    net = NetDef(
        op=[
            given("a", [1.0], [2]),
            op("Copy", "a", "b"),
            op("Scale", "b", "c"),
            op("FC", "data w", "y"),
            op("Relu", "data", "z"),
            given("d", [1.0], [3]),
            given("e", [1.0]),
        ]
    )
    init = read_init_net(as_input(net))
    assert [(f.code, f.location.index) for f in init.findings] == [
        ("bad-fill", 0),
        ("not-an-init-net", 3),
        ("bad-fill", 5),
    ]
    assert "reads 'data', which no operator of the init net writes (1 more" in init.findings[1].reason
    assert list(init.parameters) == ["e"]
    assert [view.index for view in init.rest] == [3, 4]


def test_device_options() -> None:
    net = NetDef(op=[given("a", [1.0]), given("b", [1.0]), op("CopyGPUToCPU", "a", "c"), op("CopyCPUToGPU", "b", "d")])
    net.device_option.device_type = 1
    net.op[1].device_option.device_type = 0
    parameters = read_init_net(net.SerializeToString()).parameters
    kinds = {name: p.device.device_type if p.device else None for name, p in parameters.items()}
    assert kinds == {"a": 1, "b": 0, "c": None, "d": 1}


def test_damage_inside_of_values_is_found_when_they_are_decoded() -> None:
    data = bytearray(NetDef(op=[given("w", [1.0] * 1000)]).SerializeToString())
    run = data.index(b"\x2d\x00\x00\x80\x3f")
    data[run + 5 * 500] = 0x35  # no element of this run, and one of the places that are not probed
    init = read_init_net(bytes(data))
    if init.findings:  # the probes may grow denser one day
        assert init.findings[0].code == "bad-fill"
    else:
        with pytest.raises(NetFormatError, match=r"init\[0\] GivenTensorFill: blob 'w' has 999 values"):
            init.parameters["w"].load()


def test_packed_values_and_values_before_the_name() -> None:
    floats = np.arange(6, dtype=np.float32)
    values = wire_write.encode_len(wire.FLOATS, floats.tobytes()) + Argument(name="values").SerializeToString()
    head = OperatorDef(type="GivenTensorFill", output=["w"], arg=[Argument(name="shape", ints=[2, 3])])
    operator = head.SerializeToString() + wire_write.encode_len(OperatorDef.ARG_FIELD_NUMBER, values)
    init = read_init_net(wire_write.encode_len(NetDef.OP_FIELD_NUMBER, operator))
    np.testing.assert_array_equal(init.parameters["w"].load(), floats.reshape(2, 3))


def test_shape_given_by_another_constant(as_input: AsInput) -> None:
    shape = OperatorDef(
        type="GivenTensorInt64Fill",
        output=["shape"],
        arg=[Argument(name="shape", ints=[2]), Argument(name="values", ints=[3, 2])],
    )
    filled = op("ConstantFill", "shape", "w", Argument(name="input_as_shape", i=1), Argument(name="value", f=4.0))
    init = read_init_net(as_input(NetDef(op=[shape, filled])))
    assert init.parameters["w"].load().tolist() == [[4.0, 4.0]] * 3


def test_read_init_takes_all_forms() -> None:
    net = NetDef(op=[given("w", [1.0])])
    model = Model.of(NetDef(), net)
    assert read_init(None).parameters == {}
    assert read_init(model) is model.init
    assert read_init(model.init) is model.init
    assert list(read_init(net).parameters) == list(read_init(net.SerializeToString()).parameters) == ["w"]
    with pytest.raises(NetFormatError, match="truncated"):
        read_init(b"\x12\x7f")
    with pytest.raises(NetFormatError, match="must be a NetDef or a serialized one, not int"):
        read_init(3)  # type: ignore[arg-type] # on purpose


def test_model_inputs_and_outputs() -> None:
    predict = NetDef(
        op=[op("FC", "x w b", "y"), op("Add", "y late", "z")],
        external_input=["x", "w", "b", "x"],
        external_output=["z", "z"],
    )
    model = Model.of(predict, NetDef(op=[given("w", [1.0]), op("Load", "", "b")]), "here")
    assert (model.inputs, model.outputs, model.source) == (("x", "late"), ("z",), "here")
    assert dict(model.params) == {"w": np.array([1.0])}
    assert "b" not in model.params
    assert repr(model.params) == "Arrays(w)"


def test_optional_inputs_that_are_omitted_are_no_inputs_of_the_model() -> None:
    predict = NetDef(op=[NetDef().op.add(type="Clip", domain="ai.onnx", input=["x", "", "h"], output=["y"])])
    assert Model.of(predict, NetDef()).inputs == ("x", "h")


@pytest.mark.parametrize("shape", [[1], [1, 1]])
def test_fills_with_one_element_are_inputs_where_operators_read_data(shape: list[int]) -> None:
    ops = [
        op("Sub", "data mean", "a", Argument(name="broadcast", i=1)),
        op("Conv", "a w b", "y"),
        op("Mul", "y scale", "z"),
    ]
    predict = NetDef(op=ops, external_input=["w", "b", "mean", "scale", "data"], external_output=["z"])
    filled = [given(name, [3.0], [1]) for name in ("w", "b", "mean", "scale")]
    init = NetDef(op=[*filled, op("ConstantFill", "", "data", Argument(name="shape", ints=shape))])
    model = Model.of(predict, init)
    assert model.inputs == ("data",)
    assert sorted(model.params) == ["b", "mean", "scale", "w"]
    # The same in a net that declares no inputs.
    del predict.external_input[:]
    assert Model.of(predict, init).inputs == ("data",)


def test_fake_fills_of_inputs_are_placeholders() -> None:
    predict = NetDef(op=[op("FC", "x w b", "y")], external_input=["x", "w", "b", "x"])
    mobile = NetDef(op=[given("x", [0.0], [1, 1]), given("w", [1.0]), given("b", [0.0], [1, 1])])
    model = Model.of(predict, mobile)
    assert model.inputs == ("x",)
    assert list(model.params) == ["w", "b"]
    assert list(model.init.placeholders) == ["x"]
    assert read_init(mobile, predict).placeholders.keys() == {"x"}
    # A net of which everything is filled would take no input: the first external input is it.
    exported = NetDef(op=[given("x", [0.3, 0.4]), given("w", [1.0]), given("b", [1.0])])
    assert Model.of(predict, exported).inputs == ("x",)
    assert Model.of(predict, NetDef(op=exported.op[1:])).inputs == ("x",)
    # Not so where the first operator does not read it first.
    predict.op[0].input[0], predict.op[0].input[1] = "w", "x"
    exported.op[1].CopyFrom(given("w", [1.0, 2.0]))
    assert Model.of(predict, exported).inputs == ()


def test_the_operators_of_a_stored_net_are_read_one_at_a_time() -> None:
    net = NetDef(
        name="init", op=[given("a", [1.0, 2.0]), op("ConstantFill", "", "b", Argument(name="shape", ints=[1]))]
    )
    stored = read_init_net(net.SerializeToString()).stored_operators()
    assert stored is not None
    header, operators = stored
    assert (header.name, len(header.op)) == ("init", 0)
    (first, values), (second, none) = operators
    assert [arg.name for arg in first.arg] == ["shape"]
    assert values is not None
    assert values(wire.FLOATS, np.dtype(np.float32)).tolist() == [1.0, 2.0]
    assert (second.type, none) == ("ConstantFill", None)


def test_a_net_in_memory_is_not_stored() -> None:
    assert read_init_net(NetDef(op=[given("a", [1.0])])).stored_operators() is None
